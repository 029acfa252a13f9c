/**
 * The page of a fleet: every broker under this server, what it runs and what it should run.
 *
 * Invariants: only the rows in sight are elements, however many brokers there are; each question asks for what changed since the
 * last answer.
 * Failure: that the server does not answer is shown above the last rows, and the request is retried.
 */

import "./style.css";
import "./fleet.css";
import { ApiError, fetchBrokers } from "./api.ts";
import { byId, el } from "./dom.ts";
import { showChecks } from "./fleetchecks.ts";
import { FleetLive } from "./fleetlive.ts";
import { arranged, COLUMNS, inSight, LEVEL, problems, STATES, versionText, type BrokerRow, type State } from "./fleetrows.ts";
import { formatClock, formatCount, formatDate, formatDuration } from "./format.ts";
import { poll } from "./poll.ts";
import { useTheme } from "./themebutton.ts";

const EVERY_MS = 2_000;
/** The height of a row in the style sheet. */
const ROW_PX = 30;

const rows = new Map<string, BrokerRow>();
let cursor = 0;
let nowMs = 0;
let state: State | null = null;
let [by, reversed] = ["state", false];
let chosen: string | null = null;
let shown: BrokerRow[] = [];

const live = new FleetLive(byId("live"));
const table = byId("rows");
const spacer = el("div", { class: "fleet-space", role: "rowgroup" });
const heads = COLUMNS.map(({ key, title }) => el("div", { role: "columnheader", class: `cell ${key}` }, el("button", { type: "button", "data-sort": key, click: () => sort(key) }, title)));

useTheme();
byId("words").addEventListener("input", () => arrange());
table.append(el("div", { class: "fleet-head", role: "rowgroup" }, el("div", { class: "fleet-row head", role: "row" }, ...heads)), spacer);
table.addEventListener("scroll", () => draw(), { passive: true });
new ResizeObserver(() => draw()).observe(table);
poll(ask, EVERY_MS);
showChecks(byId("checks"));

async function ask(): Promise<void> {
  const lost = byId("lost");
  try {
    const answer = await fetchBrokers(cursor);
    lost.hidden = true;
    // A server that was restored from an older copy counts from further back.
    if (answer.cursor < cursor) rows.clear();
    for (const row of answer.brokers) rows.set(row.name, row);
    [cursor, nowMs] = [answer.cursor < cursor ? 0 : answer.cursor, answer.now_ms];
    arrange();
  } catch (cause) {
    lost.hidden = false;
    lost.textContent = `${cause instanceof ApiError ? cause.message : String(cause)} What is shown is from before; it is asked again every ${EVERY_MS / 1000} s.`;
  }
}

function sort(key: string): void {
  reversed = by === key && !reversed;
  by = key;
  arrange();
}

function arrange(): void {
  shown = arranged(rows.values(), byId<HTMLInputElement>("words").value, state, by, reversed);
  heads.forEach((head, at) => head.setAttribute("aria-sort", COLUMNS[at]?.key !== by ? "none" : reversed ? "ascending" : "descending"));
  table.setAttribute("aria-rowcount", String(shown.length + 1));
  spacer.style.height = `${shown.length * ROW_PX}px`;
  byId("count").textContent = rows.size === 0 ? "No broker has enrolled yet: ogive fleet ticket --group GROUP" : `${formatCount(shown.length)} of ${formatCount(rows.size)} brokers`;
  states();
  draw();
  one();
}

function states(): void {
  const counts = new Map<State, number>();
  for (const row of rows.values()) counts.set(row.state, (counts.get(row.state) ?? 0) + 1);
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["state"] : undefined;
  const boxes = STATES.map(([key, word]) => {
    const choose = (): void => {
      state = state === key ? null : key;
      arrange();
    };
    return el("button", { type: "button", class: "fact", "data-state": key, "aria-pressed": String(state === key), click: choose },
      el("span", { class: "name" }, el("i", { class: `dot ${LEVEL[key]}` }), word), el("span", { class: "value" }, formatCount(counts.get(key) ?? 0)));
  });
  byId("states").replaceChildren(...boxes);
  boxes.find((box) => box.dataset["state"] === focused)?.focus();
}

/** Draws the rows in sight. */
function draw(): void {
  const [first, end] = inSight(table.scrollTop, table.clientHeight, ROW_PX, shown.length);
  const { broker, watch } = document.activeElement instanceof HTMLElement ? document.activeElement.dataset : ({} as DOMStringMap);
  const lines = shown.slice(first, end).map((row, at) => line(row, first + at));
  spacer.replaceChildren(...lines);
  const focus = (button: string): void => spacer.querySelector<HTMLElement>(button)?.focus({ preventScroll: true });
  if (broker !== undefined) focus(`button[data-broker="${CSS.escape(broker)}"]`);
  if (watch !== undefined) focus(`button[data-watch="${CSS.escape(watch)}"]`);
}

function line(row: BrokerRow, at: number): HTMLElement {
  const choose = (): void => {
    chosen = chosen === row.name ? null : row.name;
    draw();
    one();
  };
  const cells = COLUMNS.map(({ key, text }) => {
    const value = text(row, nowMs);
    if (key === "name") {
      const name = el("button", { type: "button", "data-broker": row.name, "aria-expanded": String(chosen === row.name), click: choose }, value);
      const watch = el("button", { type: "button", class: "watch", "data-watch": row.name, title: "What comes to it, each second", "aria-label": `Live: ${row.name}`, click: () => live.open(row.name) }, "Live");
      return el("div", { role: "rowheader", class: "cell name" }, name, watch);
    }
    if (key === "state") return el("div", { role: "cell", class: "cell state" }, el("i", { class: `dot ${LEVEL[row.state]}` }), value);
    return el("div", { role: "cell", class: `cell ${key}` }, value);
  });
  const out = el("div", { class: "fleet-row", role: "row", "data-name": row.name, "aria-rowindex": at + 2 }, ...cells);
  out.style.top = `${at * ROW_PX}px`;
  return out;
}

/** The broker that was chosen, in full. */
function one(): void {
  const box = byId("one");
  const row = chosen === null ? undefined : rows.get(chosen);
  box.hidden = row === undefined;
  if (row === undefined) return;
  const { report } = row;
  const found = problems(row);
  const fact = (name: string, value: string, note: string): HTMLElement => el("div", { class: "fact" }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), el("div", { class: "note" }, note));
  const instant = (ms: number): string => `${formatDate(ms / 1000)} ${formatClock(ms / 1000)}`;
  box.replaceChildren(
    el("h2", {}, row.name),
    el("div", { class: "facts" },
      fact("Version", versionText(row), `group ${row.group}`),
      fact("Checks", report === null ? "–" : formatCount(report.checks), "of the group's configuration"),
      fact("Last seen", row.seen_ms === null ? "never" : instant(row.seen_ms), row.address ?? "since the server started"),
      fact("Program", report === null ? "–" : report.ogive, `its token ends ${instant(row.token_expires_ms)}`),
      fact("Requests that wait", formatCount(row.tasks), `ogive fleet ask ${row.name} status`),
    ),
    ...(found.length === 0 ? [el("p", { class: "note" }, "Nothing is wrong with it.")] : found.map((text) => el("p", { class: "doubt" }, text))),
    ...(report === null ? [] : report.destinations.map((one) => el("p", { class: "note" }, `${one.name}: ${one.lag_seconds < 0.05 ? "up to date" : `${formatDuration(Number(one.lag_seconds.toPrecision(2)))} behind`}`))),
  );
}
