/**
 * The page of boards: the list of those that are there, and a board with its panels, variables and range.
 *
 * Invariants: the address holds the whole state: which board, its range, its variables, and what was changed and is not saved (behind `#`).
 * Failure: a panel says by itself what it has no answer to; a save that would overwrite somebody else's is refused by the server, and said.
 */

import "./style.css";
import "./board.css";
import { ApiError, deleteBoard, fetchBoard, fetchBoards, fetchLabelValues, saveBoard, serverNow, type SavedBoard } from "./api.ts";
import { ALL, boardOf, boardOfHash, boardToHash, filled, formatBoardState, nameOf, NEW_BOARD, parseBoardState, rowsOf, usualRange, type Board, type BoardState, type Panel, type Place } from "./board.ts";
import { BoardGrid } from "./boardgrid.ts";
import { byId, el } from "./dom.ts";
import { formatClock, formatDate } from "./format.ts";
import { ofGrafana } from "./grafana.ts";
import { drawNotices } from "./notices.ts";
import { RangeBox } from "./rangebox.ts";
import { readyBoards, readySelectors } from "./readyboards.ts";
import { formatState, isLive, parseState, type Range } from "./state.ts";
import { useTheme } from "./themebutton.ts";

/** A live board is asked for again this often, and a wall's. */
const EVERY_MS = 10_000;

class BoardPage {
  private state: BoardState = parseBoardState(location.search);
  private board: Board | null = null;
  /** The version that was loaded; 0 for a board that is not saved. */
  private base = 0;
  private saved = "";
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly grid: BoardGrid;
  private readonly ranges: RangeBox;

  constructor() {
    useTheme(() => this.grid.repaint());
    this.ranges = new RangeBox((range) => this.change({ range }), () => this.span(), () => this.refresh());
    this.grid = new BoardGrid(byId("grid"), {
      changed: (panels) => this.edited({ ...(this.board as Board), panels }),
      address: (panel) => this.addressOf(panel),
      zoom: (range) => this.change({ range }),
    });
    for (const [id, act] of Object.entries(this.actions())) byId(id).addEventListener("click", act);
    byId("import-file").addEventListener("change", () => void this.importFile());
    window.addEventListener("popstate", () => void this.open());
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.state.tv && this.change({ tv: false }));
    void this.open();
  }

  private actions(): Record<string, () => void> {
    return {
      edit: () => this.change({ edit: !this.state.edit }),
      save: () => void this.save(),
      remove: () => void this.remove(),
      download: () => this.download(),
      "add-panel": () => this.grid.add(),
      "add-variable": () => this.addVariable(),
      tv: () => {
        this.change({ tv: true });
        // A browser may refuse; the board then fills its window.
        void document.documentElement.requestFullscreen?.().catch(() => undefined);
      },
      "new-board": () => void this.take(NEW_BOARD),
      import: () => byId("import-file").click(),
    };
  }

  private change(part: Partial<BoardState>): void {
    this.state = { ...this.state, ...part };
    history.pushState(null, "", location.pathname + formatBoardState(this.state) + location.hash);
    this.draw();
  }

  /** Shows what the address says. */
  private async open(): Promise<void> {
    this.state = parseBoardState(location.search);
    this.board = null;
    this.base = 0;
    drawNotices(byId("notices"), [], []);
    try {
      const { name, ready, version } = this.state;
      if (name !== null) {
        const found = await fetchBoard(name, version);
        this.board = boardOf(found.board);
        this.base = found.versions.at(-1)?.deleted === true ? 0 : (found.versions.at(-1)?.version ?? 0);
        this.drawVersions(found.versions.map((one) => one.version), found.version);
      } else byId("versions").replaceChildren();
      if (ready !== null) this.board = (await this.ready()).find(({ board }) => board.name === ready)?.board ?? null;
      this.saved = JSON.stringify(this.board);
      this.board = (await boardOfHash(location.hash)) ?? this.board;
      if (ready !== null && this.board === null) drawNotices(byId("notices"), [`The ready-made board ${JSON.stringify(ready)} has no series here.`], []);
    } catch (cause) {
      this.say(cause);
    }
    this.draw();
  }

  private async ready(): Promise<ReturnType<typeof readyBoards>> {
    const names = new Set(await fetchLabelValues("__name__"));
    const selectors = readySelectors(names);
    const found = await Promise.all(selectors.map(async (selector) => (await fetchLabelValues("__name__", selector)).length > 0));
    return readyBoards(new Set([...names, ...selectors.filter((_, at) => found[at])]));
  }

  private say(cause: unknown): void {
    drawNotices(byId("notices"), [cause instanceof ApiError ? cause.message : String(cause)], []);
  }

  private span(): { start: number; end: number } {
    const range = this.range();
    const now = Math.floor(serverNow());
    return isLive(range) ? { start: now - range.last, end: now } : range;
  }

  private range(): Range {
    return this.state.range ?? (this.board === null ? { last: 3600 } : usualRange(this.board));
  }

  /** Where a panel's first expression is looked at alone. */
  private addressOf({ queries }: Panel): string {
    const [query] = queries;
    return query === undefined ? "./" : `./${formatState({ ...parseState(""), query: filled(query, this.values()), range: this.range() })}`;
  }

  private values(): Record<string, string> {
    return Object.fromEntries((this.board?.variables ?? []).map(({ name, value }) => [name, this.state.values[name] ?? value ?? ALL]));
  }

  private draw(): void {
    const { board, state } = this;
    document.body.classList.toggle("tv", state.tv && board !== null);
    byId("boards").hidden = board !== null;
    byId("one").hidden = board === null;
    for (const id of ["edit", "tv", "download"]) byId(id).hidden = board === null;
    for (const id of ["save", "remove", "add-panel", "add-variable"]) byId(id).hidden = board === null || !state.edit;
    byId("remove").hidden ||= this.base === 0;
    byId("edit").setAttribute("aria-pressed", String(state.edit));
    this.ranges.show(this.range());
    if (board === null) {
      byId("title").textContent = "Boards";
      document.title = "Ogive boards";
      return void this.list();
    }
    byId("title").textContent = board.title;
    document.title = `${board.title} · Ogive`;
    byId("dirty").hidden = JSON.stringify(board) === this.saved;
    document.documentElement.style.setProperty("--board-rows", String(Math.max(1, rowsOf(board.panels))));
    void this.drawVariables(board);
    this.grid.show(board.panels, state.edit);
    this.refresh();
  }

  /** Asks for what every panel shows. */
  private refresh(): void {
    clearTimeout(this.timer);
    if (this.board === null || document.hidden) return;
    this.grid.load(this.span(), this.values());
    if (isLive(this.range())) this.timer = setTimeout(() => this.refresh(), Math.max(EVERY_MS, (this.range() as { last: number }).last * 2));
  }

  private async drawVariables(board: Board): Promise<void> {
    const box = byId("variables");
    const values = this.values();
    box.hidden = board.variables.length === 0;
    const parts = await Promise.all(
      board.variables.map(async ({ name, label, match }) => {
        const all = await fetchLabelValues(label, match === undefined ? undefined : filled(match, values)).catch(() => [] as string[]);
        const chosen = values[name] ?? ALL;
        const offered = [ALL, ...new Set([...all, ...(chosen === ALL ? [] : [chosen])])];
        const options = offered.map((value) => {
          const one = el("option", { value }, value === ALL ? "all" : value);
          one.selected = value === chosen;
          return one;
        });
        const select = el("select", { "data-variable": name }, ...options);
        select.addEventListener("change", () => this.change({ values: { ...this.state.values, [name]: select.value } }));
        return el("label", { class: "group-of" }, name, select);
      }),
    );
    if (this.board === board) box.replaceChildren(...parts);
  }

  private drawVersions(all: readonly number[], shown: number): void {
    const select = el("select", { "aria-label": "Version" }, ...[...all].reverse().map((version) => el("option", { value: version, selected: version === shown }, `version ${version}`)));
    select.addEventListener("change", () => {
      this.state = { ...this.state, version: Number(select.value) };
      history.pushState(null, "", location.pathname + formatBoardState(this.state));
      void this.open();
    });
    byId("versions").replaceChildren(...(all.length > 1 ? [select] : []));
  }

  /** Boards that are saved, and those that are there because their series are. */
  private async list(): Promise<void> {
    try {
      const [saved, ready] = await Promise.all([fetchBoards(), this.ready()]);
      byId("saved").replaceChildren(...(saved.length === 0 ? [el("p", { class: "note" }, "None yet: make one, or take a ready-made one and save it.")] : saved.map((one) => this.row(one))));
      const rows = ready.map(({ about, board }) => el("a", { class: "board-row", href: `board.html?ready=${encodeURIComponent(board.name)}`, "data-ready": board.name }, el("b", {}, board.title), el("span", {}, `${about} · ${board.panels.length} panels`)));
      byId("ready").replaceChildren(...rows);
    } catch (cause) {
      this.say(cause);
    }
  }

  private row({ name, title, version, time_ms, by, panels }: SavedBoard): HTMLElement {
    const when = `${formatDate(time_ms / 1000)} ${formatClock(time_ms / 1000)}`;
    return el("a", { class: "board-row", href: `board.html?name=${encodeURIComponent(name)}`, "data-board": name }, el("b", {}, title || name), el("span", {}, `${panels} panels · version ${version}, ${when}, by ${by}`));
  }

  /** Takes a board that is not saved: it stands in the address. */
  private async take(board: Board): Promise<void> {
    this.state = { ...this.state, name: null, ready: null, version: null, edit: true };
    this.base = 0;
    this.saved = "";
    this.board = board;
    history.pushState(null, "", `${location.pathname}${formatBoardState(this.state)}#${await boardToHash(board)}`);
    this.draw();
  }

  /** Keeps what was changed in the address. */
  private edited(board: Board): void {
    this.board = board;
    this.draw();
    void boardToHash(board).then((hash) => history.replaceState(null, "", `${location.pathname}${location.search}#${hash}`));
  }

  private addVariable(): void {
    const { board } = this;
    if (board === null) return;
    const text = prompt("A variable from a label: NAME, or NAME=LABEL, or NAME=LABEL of SERIES", "host");
    const found = /^\s*([a-zA-Z_]\w*)\s*(?:=\s*([a-zA-Z_]\w*))?\s*(?:of\s+(.+))?$/.exec(text ?? "");
    if (found === null) return;
    const [, name, label, match] = found as unknown as [string, string, string | undefined, string | undefined];
    const variable = { name, label: label ?? name, ...(match === undefined ? {} : { match: match.trim() }) };
    this.edited({ ...board, variables: [...board.variables.filter((one) => one.name !== name), variable] });
  }

  private async save(): Promise<void> {
    const { board } = this;
    if (board === null) return;
    const title = this.base > 0 ? board.title : prompt("Title of the board", board.title);
    if (title === null || title.trim() === "") return;
    const own = this.base > 0 ? board : { ...board, title: title.trim(), name: nameOf(title) };
    try {
      // A board that is new replaces none that is there.
      await saveBoard(own, this.base);
      history.pushState(null, "", `${location.pathname}${formatBoardState({ ...this.state, name: own.name, ready: null, version: null, edit: false })}`);
      await this.open();
    } catch (cause) {
      this.say(cause);
    }
  }

  private async remove(): Promise<void> {
    if (this.board === null || !confirm(`Delete the board ${this.board.title}? Its versions stay on the server.`)) return;
    try {
      await deleteBoard(this.board.name);
      history.pushState(null, "", location.pathname);
      await this.open();
    } catch (cause) {
      this.say(cause);
    }
  }

  /** A file that `ogive board apply` takes. */
  private download(): void {
    const { board } = this;
    if (board === null) return;
    const named = { ...board, name: board.name || nameOf(board.title) };
    const address = URL.createObjectURL(new Blob([`${JSON.stringify(named, null, 2)}\n`], { type: "application/json" }));
    el("a", { href: address, download: `${named.name}.json` }).click();
    URL.revokeObjectURL(address);
  }

  private async importFile(): Promise<void> {
    const input = byId<HTMLInputElement>("import-file");
    const file = input.files?.[0];
    if (file === undefined) return;
    input.value = "";
    let value: unknown;
    try {
      value = JSON.parse(await file.text());
    } catch (cause) {
      return drawNotices(byId("notices"), [`${file.name} is not JSON: ${String(cause)}`], []);
    }
    const imported = ofGrafana(value);
    const board = imported?.board ?? boardOf(value);
    if (board === null) return drawNotices(byId("notices"), [`${file.name} is neither a board nor a dashboard of Grafana's.`], []);
    await this.take(board);
    if (imported !== null) drawNotices(byId("notices"), imported.report, [`${imported.panels.taken} panels were taken, ${imported.panels.left} have no counterpart.`]);
  }
}

export type { Place };
new BoardPage();
