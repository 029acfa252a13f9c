/**
 * The page of alerts: what fires, what is quiet and why, and what a rule would have done.
 *
 * Invariants: what is shown is the last answer of the server; what somebody writes (a reason, rules) survives each turn.
 * Failure: that a server does not answer is shown above the last list, and the request is retried.
 */

import "./style.css";
import { ApiError, acknowledge, backtest, endSilence, fetchAlertHours, fetchAlerts, fetchFindings, fetchSilences, makeSilence, serverNow } from "./api.ts";
import { HOURS, compared, familiesOf, groupsOf, hoursOf, identity, ownLabels, shared, spans, type Alert, type AlertGroup, type Family, type Finding, type Silence, type Tested } from "./alertlist.ts";
import { AlertPicture } from "./alertpicture.ts";
import { byId, el } from "./dom.ts";
import { formatClock, formatCount, formatDate, formatDuration } from "./format.ts";
import { poll } from "./poll.ts";
import { DEFAULTS, formatState } from "./state.ts";
import { useTheme } from "./themebutton.ts";

const EVERY_MS = 5_000;
/** Hours change slowly, and cost a query. */
const HOURS_EVERY_MS = 60_000;
const TYPING_MS = 500;

let hours = new Map<string, boolean[]>();
let hoursAt = 0;
/** Groups and alerts that somebody opened. */
const opened = new Set<string>();
/** Somebody is in the form of an alert: the list stands still. */
let writing = false;
/** Pictures of alerts that somebody opened, by identity and begin: they outlive a turn of the list. */
const pictures = new Map<string, AlertPicture>();
/** Reasons that were begun, by the identity of their alert. */
const reasons = new Map<string, string>();

useTheme();
listenToRules();
poll(async () => {
  if (!writing) await load();
}, EVERY_MS);

async function load(): Promise<void> {
  const lost = byId("lost");
  try {
    const [alerts, silences, findings] = await Promise.all([fetchAlerts(), fetchSilences(), fetchFindings()]);
    if (Date.now() - hoursAt > HOURS_EVERY_MS) {
      const end = Math.floor(serverNow());
      hours = hoursOf(await fetchAlertHours(end, HOURS), end);
      hoursAt = Date.now();
    }
    lost.hidden = true;
    // A form may have been entered since the server was asked.
    if (!writing) draw(alerts, silences, findings);
  } catch (cause) {
    say(cause);
  }
}

function say(cause: unknown): void {
  const lost = byId("lost");
  lost.hidden = false;
  lost.textContent = cause instanceof ApiError ? cause.message : String(cause);
}

function draw(alerts: readonly Alert[], silences: readonly Silence[], findings: readonly Finding[]): void {
  const sorted = familiesOf(findings, alerts);
  const groups = groupsOf(sorted.alerts);
  forgetPictures(alerts);
  const firing = alerts.filter((alert) => alert.state === "firing");
  const quiet = firing.filter((alert) => alert.quiet !== undefined).length;
  document.title = `${firing.length - quiet} firing · Ogive alerts`;
  byId("summary").replaceChildren(
    fact("Firing", String(firing.length - quiet), groups.length === 0 ? "nothing fires" : groups.length === 1 ? "of one name" : `of ${groups.length} names`),
    fact("Quiet", String(quiet), "firing, and nobody hears of it"),
    fact("Pending", String(alerts.length - firing.length), "for a while yet"),
    fact("Findings", String(findings.length), sorted.families.length === 0 ? "of the detectors" : `${sorted.families.length} lost, with all that is theirs`),
    fact("Silences", String(silences.length), "in force or to come"),
  );
  byId("groups").replaceChildren(...groups.map(groupOf));
  byId("findings").replaceChildren(...sorted.families.map(familyOf), ...sorted.findings.map(findingOf));
  byId("silences").replaceChildren(...silences.map(silenceOf));
}

function fact(name: string, value: string, note: string): HTMLElement {
  return el("div", { class: "fact" }, el("div", { class: "name" }, name), el("div", { class: "value" }, value), el("div", { class: "note" }, note));
}

function groupOf(group: AlertGroup): HTMLElement {
  const common = shared(group.alerts);
  const counts = [`${group.firing} firing`, group.quiet > 0 ? `${group.quiet} quiet` : "", group.pending > 0 ? `${group.pending} pending` : ""];
  const labels = Object.entries(common).map(([name, value]) => `${name}=${value}`).join(" ");
  const out = el("details", { class: "alert-group", "data-name": group.name },
    el("summary", {}, el("b", {}, group.name), el("span", { class: "counts" }, counts.filter((text) => text !== "").join(" · ")), el("span", { class: "labels" }, labels)),
    ...group.alerts.map((alert) => alertOf(alert, ownLabels(alert, common))),
  );
  remember(out, `group ${group.name}`, group.firing > group.quiet);
  return out;
}

/** A lost parent, with the alerts and findings of what is lost with it below. */
function familyOf(family: Family): HTMLElement {
  const { parent, alerts, findings, series } = family;
  const what = [`${formatCount(series)} series suppressed`, alerts.length > 0 ? `${alerts.length} alerts` : "", findings.length > 0 ? `${findings.length} findings` : ""];
  const key = `family ${identity(parent.labels)}`;
  const out = el("details", { class: "finding family", "data-kind": parent.kind, "data-parent": identity(parent.labels) },
    el("summary", {}, el("span", { class: "condition bad" }, "lost"), el("span", { class: "text" }, parent.sentence), el("span", { class: "counts" }, what.filter((text) => text !== "").join(" · "))),
    ...alerts.map((alert) => alertOf(alert, `${alert.labels["alertname"] ?? ""} ${ownLabels(alert, parent.labels)}`)),
    ...findings.map(findingOf),
  );
  remember(out, key, false);
  return out;
}

function findingOf(finding: Finding): HTMLElement {
  const began = finding.began_ms / 1000;
  const labels = Object.entries(finding.labels).map(([name, value]) => `${name}=${value}`).join(" ");
  return el("p", { class: "finding", "data-kind": finding.kind },
    el("span", { class: "condition quiet" }, finding.kind.replaceAll("_", " ")), el("span", { class: "text" }, finding.sentence),
    el("span", { class: "labels" }, labels), el("span", { class: "since", title: `${formatDate(began)} ${formatClock(began)}` }, formatDuration(Math.max(Math.round(serverNow() - began), 0))));
}

function pictureKey(alert: Alert): string {
  return `${alert.activeAt} ${identity(alert.labels)}`;
}

/** Pictures of alerts that are over go. */
function forgetPictures(alerts: readonly Alert[]): void {
  const active = new Set(alerts.map(pictureKey));
  for (const key of pictures.keys()) if (!active.has(key)) pictures.delete(key);
}

/** The picture of an alert that is open; it is asked for when somebody opens it. */
function pictureOf(alert: Alert, details: HTMLDetailsElement, parent: HTMLElement): void {
  const show = (): void => {
    if (!details.open) return;
    const key = pictureKey(alert);
    const picture = pictures.get(key) ?? new AlertPicture();
    pictures.set(key, picture);
    parent.append(picture.element);
    picture.show(alert);
  };
  details.addEventListener("toggle", show);
  show();
}

/** Keeps open what somebody opened, and closed what they closed. */
function remember(details: HTMLDetailsElement, key: string, usual: boolean): void {
  details.open = opened.has(key) || (usual && !opened.has(`not ${key}`));
  // Not `toggle`, which comes as well when the page itself opens it. A click comes before the change.
  details.querySelector("summary")?.addEventListener("click", () => {
    opened.delete(details.open ? key : `not ${key}`);
    opened.add(details.open ? `not ${key}` : key);
  });
}

function alertOf(alert: Alert, own: string): HTMLElement {
  const key = identity(alert.labels);
  const level = alert.state === "pending" ? "warn" : alert.quiet === undefined ? "bad" : "quiet";
  const since = Date.parse(alert.firedAt ?? alert.activeAt) / 1000;
  const out = el("details", { class: `alert ${level}`, "data-key": key },
    el("summary", {},
      el("span", { class: `condition ${level}` }, alert.quiet === undefined ? alert.state : "quiet"),
      el("span", { class: "labels" }, own),
      el("span", { class: "text" }, alert.annotations["summary"] ?? alert.annotations["description"] ?? ""),
      el("span", { class: "since", title: `${formatDate(since)} ${formatClock(since)}` }, formatDuration(Math.max(Math.round(serverNow() - since), 0))),
      blocks(hours.get(key)),
    ),
    detail(alert),
  );
  remember(out, `alert ${key}`, false);
  pictureOf(alert, out, out.querySelector<HTMLElement>(".alert-detail") ?? out);
  return out;
}

function blocks(fired: readonly boolean[] | undefined): HTMLElement {
  const each = (fired ?? new Array<boolean>(HOURS).fill(false)).map((did, at) => el("i", { class: did ? "fired" : "", title: `${HOURS - at} h ago` }));
  return el("span", { class: "hours", role: "img", "aria-label": `fired in ${fired?.filter(Boolean).length ?? 0} of the last ${HOURS} hours` }, ...each);
}

function detail(alert: Alert): HTMLElement {
  const pairs = (labels: Record<string, string>): HTMLElement[] => Object.entries(labels).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  const { query, threshold } = compared(alert.query);
  const begin = Date.parse(alert.activeAt) / 1000;
  const range = { start: Math.floor(begin - 3600), end: Math.ceil(serverNow()) };
  const picture = `./${formatState({ ...DEFAULTS, query, threshold, range })}`;
  const quiet = alert.quiet;
  const why = quiet === undefined ? [] : [el("p", { class: "why" }, quiet.maintenance !== undefined ? `maintenance: ${quiet.maintenance}` : `${quiet.acknowledgement === true ? "acknowledged" : "silenced"} by ${quiet.by}: ${quiet.reason}`)];
  return el("div", { class: "alert-detail" },
    ...why,
    el("dl", {},
      ...pairs(alert.annotations),
      el("dt", {}, "rule"), el("dd", {}, el("code", {}, alert.query), ` in ${alert.file}, group ${alert.group}`),
      el("dt", {}, "value"), el("dd", {}, String(alert.value)),
      el("dt", {}, "began"), el("dd", {}, `${formatDate(begin)} ${formatClock(begin)}`),
      el("dt", {}, "judged on data up to"), el("dd", {}, alert.watermark ?? "not yet"),
      ...pairs(alert.labels),
    ),
    el("p", { class: "actions" }, el("a", { href: picture }, "Picture of what it watches"), ...(quiet === undefined ? [quietForm(alert)] : [])),
  );
}

function quietForm(alert: Alert): HTMLElement {
  const key = identity(alert.labels);
  const reason = el("input", { type: "text", placeholder: "Reason", "aria-label": "Reason", required: true });
  reason.value = reasons.get(key) ?? "";
  reason.addEventListener("input", () => reasons.set(key, reason.value));
  const span = el("select", { "aria-label": "For how long" }, ...["1h", "4h", "1d", "7d"].map((text) => el("option", { value: text }, text)));
  const send = async (made: Promise<void>): Promise<void> => {
    try {
      await made;
      reasons.delete(key);
      writing = false;
      await load();
    } catch (cause) {
      say(cause);
    }
  };
  const form = el("form", { class: "quiet" }, reason,
    el("button", { type: "submit", value: "acknowledge" }, "Acknowledge"),
    el("button", { type: "submit", value: "silence" }, "Silence its name for"), span,
  );
  form.addEventListener("focusin", () => (writing = true));
  form.addEventListener("focusout", (event) => form.contains(event.relatedTarget as Node | null) || (writing = false));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const wish = (event.submitter as HTMLButtonElement | null)?.value;
    const name = (alert.labels["alertname"] ?? "").replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    void send(wish === "silence" ? makeSilence({ alertname: name }, span.value, reason.value) : acknowledge(alert.labels, reason.value));
  });
  return form;
}

function silenceOf(silence: Silence): HTMLElement {
  const what = Object.entries(silence.match).map(([name, value]) => `${name}=~"${value}"`).join(" ");
  const end = el("button", { type: "button" }, "End");
  end.addEventListener("click", () => void endSilence(silence.id).then(load, say));
  // What is acknowledged is so until it ceases; its end is only a limit.
  const [kind, until] = silence.acknowledgement === true ? ["Acknowledged", "until it ceases"] : ["Silence", `until ${silence.end ?? ""}`];
  return el("p", { class: "silence", "data-id": silence.id }, el("b", {}, kind), ` ${what} ${until}, by ${silence.by ?? ""}: ${silence.reason ?? ""} `, end);
}

/** Rules are tested a moment after somebody has written. */
function listenToRules(): void {
  const [rules, stretch] = [byId<HTMLTextAreaElement>("rules"), byId<HTMLSelectElement>("stretch")];
  let timer: ReturnType<typeof setTimeout> | undefined;
  let abort = new AbortController();
  const run = async (): Promise<void> => {
    abort.abort();
    abort = new AbortController();
    const own = abort;
    if (rules.value.trim() === "") return void byId("backtest").replaceChildren();
    byId("backtest").setAttribute("aria-busy", "true");
    try {
      const { start, end, rules: found } = await backtest(rules.value, stretch.value, own.signal);
      byId("backtest").replaceChildren(...found.map((rule) => testedOf(rule, Date.parse(start) / 1000, Date.parse(end) / 1000)));
    } catch (cause) {
      if (own.signal.aborted) return;
      byId("backtest").replaceChildren(el("pre", { class: "problem" }, cause instanceof ApiError ? cause.message : String(cause)));
    }
    byId("backtest").removeAttribute("aria-busy");
  };
  const soon = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => void run(), TYPING_MS);
  };
  rules.addEventListener("input", soon);
  stretch.addEventListener("change", soon);
}

function testedOf(rule: Tested, start: number, end: number): HTMLElement {
  const percent = (part: number): string => `${(100 * part).toFixed(3)}%`;
  const fired = spans(rule, start, end).map(({ from, to }) => el("i", { style: `left:${percent(from)};width:${percent(Math.max(to - from, 0.002))}` }));
  const wrong = rule.failures > 0 ? [el("pre", { class: "problem" }, `${rule.failures} evaluations failed: ${rule.lastError ?? ""}`)] : [];
  return el("div", { class: "tested", "data-name": rule.name }, el("p", {}, el("b", {}, rule.name), ` ${rule.summary ?? "recorded"}`), el("div", { class: "track" }, ...fired), ...wrong);
}
