/**
 * Seconds of a live picture of which nothing is known yet: who sends in them may still deliver. A second that is known to be empty is
 * none of them, nor is one of which something is drawn.
 */
export class Pending {
  private readonly slots = new Set<number>();

  /** What is known of a slot now. */
  note(slot: number, unknown: boolean): void {
    if (unknown) this.slots.add(slot);
    else this.slots.delete(slot);
  }

  has(slot: number): boolean {
    return this.slots.has(slot);
  }

  /** Forgets what is out of view, or drawn. */
  keep(first: number, last: number, drawn: ReadonlyMap<number, unknown>): void {
    for (const slot of this.slots) if (slot < first || slot > last || drawn.has(slot)) this.slots.delete(slot);
  }

  clear(): void {
    this.slots.clear();
  }

  /** Runs of neighbouring slots: the first and the last of each, ascending. */
  runs(): [number, number][] {
    const runs: [number, number][] = [];
    for (const slot of [...this.slots].sort((a, b) => a - b)) {
      const run = runs.at(-1);
      if (run !== undefined && run[1] === slot - 1) run[1] = slot;
      else runs.push([slot, slot]);
    }
    return runs;
  }
}
