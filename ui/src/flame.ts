/**
 * The page of stacks: recordings of `ogive kernel flame`, as a flame graph and as a landscape of calls that one flies through.
 *
 * Invariants: a file stays in the browser, it is sent nowhere; both pictures show the same calls, the same search and the same choice.
 * Failure: what holds no folded stacks is refused with its line, and what was drawn stays.
 */

import "./style.css";
import { byId, el } from "./dom.ts";
import { FlameGraph } from "./flamegraph.ts";
import { callsOf, differenceOf, pathOf, type Call, type Calls } from "./folded.ts";
import { formatCount, formatShare } from "./format.ts";
import { Landscape } from "./landscape.ts";
import { StoredStacks } from "./storedstacks.ts";
import { applyTheme } from "./theme.ts";
import { useTheme } from "./themebutton.ts";

/** As the command has it: 262,144 stacks of 1 KiB. */
const FILE_MAX = 256 * 2 ** 20;

/** Texts of folded stacks: a recording, and one that it is compared with. */
interface Recordings {
  readonly now: readonly string[];
  readonly before: readonly string[];
}

class FlamePage {
  private calls: Calls | null = null;
  private top: Call | null = null;
  private texts: Recordings = { now: [], before: [] };
  private name = "";
  private is3d = false;
  private land: Landscape | null = null;
  private readonly graph = new FlameGraph(byId<HTMLCanvasElement>("flame"), (call) => this.choose(call), (call) => this.say(call));

  constructor() {
    useTheme(() => this.draw());
    for (const part of ["now", "before"] as const) byId<HTMLInputElement>(`file-${part}`).addEventListener("change", (event) => void this.open(event.target as HTMLInputElement, part));
    byId("search").addEventListener("input", () => this.draw());
    byId("as-flame").addEventListener("click", () => this.become(false));
    byId("as-land").addEventListener("click", () => this.become(true));
    byId("whole").addEventListener("click", () => this.calls !== null && this.choose(this.calls.root));
    new ResizeObserver(() => this.draw()).observe(byId("picture"));
    void new StoredStacks((name, texts) => this.show(name, texts), (name, cause) => this.fail(name, cause)).begin();
  }

  private async open(input: HTMLInputElement, part: "now" | "before"): Promise<void> {
    const [file] = input.files ?? [];
    if (file === undefined) return;
    try {
      if (file.size > FILE_MAX) throw new Error(`more than ${formatCount(FILE_MAX)} bytes`);
      const texts = { ...this.texts, [part]: [await file.text()] };
      this.show(part === "now" || this.name === "" ? file.name : this.name, texts);
    } catch (cause) {
      this.fail(file.name, cause);
    } finally {
      input.value = "";
    }
  }

  private show(name: string, texts: Recordings): void {
    // Another recording alone is drawn as it is, until there is one that it came before.
    const calls = texts.now.length === 0 ? callsOf(texts.before) : callsOf(texts.now, texts.before);
    if (calls.total === 0) throw new Error("there is no stack in it");
    [this.calls, this.top, this.texts, this.name] = [calls, calls.root, texts, name];
    byId("problem").hidden = true;
    byId("start").hidden = true;
    byId("picture").hidden = false;
    this.draw();
    this.land?.home();
  }

  private fail(name: string, cause: unknown): void {
    byId("problem").hidden = false;
    byId("problem").textContent = `${name}: ${cause instanceof Error ? cause.message : String(cause)}`;
  }

  private become(is3d: boolean): void {
    try {
      if (is3d) this.land ??= new Landscape(byId<HTMLCanvasElement>("land"), (call) => this.choose(call), (call) => this.say(call));
      this.is3d = is3d;
    } catch (cause) {
      byId("problem").hidden = false;
      byId("problem").textContent = cause instanceof Error ? cause.message : String(cause);
    }
    this.draw();
    if (this.is3d) byId("land").focus();
  }

  private choose(call: Call): void {
    this.top = call;
    this.draw();
    if (this.is3d) this.land?.visit(call);
    this.say(call);
  }

  private found(): (call: Call) => boolean {
    const words = byId<HTMLInputElement>("search").value.trim().toLowerCase();
    return (call) => words !== "" && call.name.toLowerCase().includes(words);
  }

  private draw(): void {
    const { calls, top, is3d } = this;
    byId("as-flame").setAttribute("aria-pressed", String(!is3d));
    byId("as-land").setAttribute("aria-pressed", String(is3d));
    byId("flame").hidden = is3d;
    byId("land").hidden = byId("keys").hidden = !is3d;
    if (calls === null || top === null) return;
    const isFound = this.found();
    if (is3d) this.land?.show(calls, isFound);
    else this.graph.show(calls, top, isFound);
    this.count(calls, isFound);
    if (byId("words").textContent === "") this.say(top);
  }

  /** What the recording comes to, and what a search finds: each sample once, however often its stack has the name. */
  private count(calls: Calls, isFound: (call: Call) => boolean): void {
    let [found, frames] = [0, 0];
    const waiting = [calls.root];
    for (let call = waiting.pop(); call !== undefined; call = waiting.pop()) {
      if (isFound(call)) {
        found += call.total;
        frames++;
      } else waiting.push(...call.calls.values());
    }
    const against = calls.before === 0 ? "" : `, beside ${formatCount(calls.before)} before`;
    const search = byId<HTMLInputElement>("search").value.trim() === "" ? "" : ` · found in ${formatShare(found / Math.max(1, calls.total))}, ${formatCount(found)}`;
    byId("total").textContent = `${this.name}: ${formatCount(calls.total)} in ${formatCount(calls.frames)} frames, ${formatCount(calls.depth)} deep${against}${search}`;
    byId("total").dataset["found"] = String(frames === 0 ? 0 : found);
  }

  private say(call: Call | null): void {
    const { calls } = this;
    const one = call ?? this.top;
    if (calls === null || one === null) return;
    const difference = differenceOf(one, calls);
    const change = difference === null ? "" : `, ${difference >= 0 ? "+" : "−"}${(Math.abs(difference) * 100).toFixed(2)} points`;
    const words = `${formatCount(one.total)} (${formatShare(one.total / Math.max(1, calls.total))}${change}), in it alone ${formatCount(one.self)}`;
    byId("words").replaceChildren(el("b", {}, one.name), ` ${words}`, el("small", {}, pathOf(one).join(" › ")));
  }
}

applyTheme();
new FlamePage();
