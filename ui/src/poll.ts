/** Asks at once, and again `everyMs` behind each answer, while somebody sees the page. `ask` handles its own failures. */
export function poll(ask: () => Promise<unknown>, everyMs: number): void {
  const turn = async (): Promise<void> => {
    if (!document.hidden) await ask();
    setTimeout(() => void turn(), everyMs);
  };
  void turn();
}
