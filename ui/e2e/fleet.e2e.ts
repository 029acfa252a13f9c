import { execFileSync } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { join, resolve } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { binary, launch, open, Server } from "./harness.ts";

let server: Server;
let browser: Browser;

/** A broker that reports and does nothing else. */
class Broker {
  private again: ReturnType<typeof setInterval> | undefined;

  private constructor(
    readonly name: string,
    private readonly token: string,
  ) {}

  static async enrol(name: string, group: string): Promise<Broker> {
    const { data } = await post<{ data: { ticket: string } }>("v1/fleet/tickets", { group });
    const token = `ogb_${randomBytes(32).toString("hex")}`;
    await post("v1/fleet/enroll", { ticket: data.ticket, name, token_sha256: createHash("sha256").update(token).digest("hex") });
    return new Broker(name, token);
  }

  /** Reports until the test ends, as a broker does: one that has been silent for twenty seconds is away. */
  async reports(report: object): Promise<void> {
    if (this.again === undefined) onTestFinished(() => clearInterval(this.again));
    clearInterval(this.again);
    await this.poll(report);
    this.again = setInterval(() => void this.poll(report).catch(() => undefined), 5_000);
  }

  /** Reports once. */
  poll(report: object): Promise<unknown> {
    const whole = { ogive: "0.1.0", now_ms: Date.now(), spool_bytes_max: 1 << 30, memory_bytes: 40 << 20, cpu: 0.01, ...report };
    return post("v1/fleet/poll", { report: whole, at_once: true }, this.token);
  }
}

async function post<T>(path: string, body: object, token?: string): Promise<T> {
  const headers = { "content-type": "application/json", ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
  const answer = await fetch(`${server.url}/${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${text}`);
  return JSON.parse(text) as T;
}

beforeAll(async () => {
  browser = await launch();
  server = await Server.start();
  await post("v1/fleet/groups/edge", { toml: "", why: "the first" });
});

afterAll(async () => {
  await browser?.close();
  await server?.end();
});

const words = async (page: Page, name: string): Promise<string> => (await page.locator(`[data-name="${name}"]`).innerText()).replace(/\s+/g, " ");
const names = (page: Page) => page.locator(".fleet-space .fleet-row").evaluateAll((all) => all.map((one) => (one as HTMLElement).dataset["name"]));

test("the page shows what each broker runs, who refuses it and why", async () => {
  const fine = await Broker.enrol("edge-1", "edge");
  const wrong = await Broker.enrol("edge-2", "edge");
  await Broker.enrol("edge-3", "edge");
  await fine.reports({ version: 1 });
  await wrong.reports({ version: 0, lag_seconds: 90, gap_samples: 12, refused: { version: 1, reason: "forbidden", why: "check \"x\" runs a program" } });
  const { page, errors } = await open(browser, `${server.url}/fleet.html`);
  await expect.poll(() => names(page)).toEqual(["edge-2", "edge-3", "edge-1"]);
  expect(await words(page, "edge-1")).toContain("edge In sync 1 0 s");
  expect(await words(page, "edge-2")).toMatch(/Refusing 0 → 1 1 ?m/);
  expect(await words(page, "edge-3")).toContain("Not seen yet – → 1");
  await page.locator('button[data-broker="edge-2"]').click();
  await expect.poll(() => page.locator("#one").innerText()).toContain("It refuses version 1, forbidden: check \"x\" runs a program");
  if (process.env["OGIVE_SCREENSHOT"] === "1") await page.screenshot({ path: resolve(import.meta.dirname, "../../docs/images/fleet.png") });

  // What changes shows without a reload.
  await post("v1/fleet/groups/edge", { toml: "labels = {site = \"fra\"}", why: "the second" });
  await expect.poll(() => words(page, "edge-1")).toContain("Drifting 1 → 2");
  await fine.reports({ version: 2 });
  await expect.poll(() => words(page, "edge-1")).toContain("In sync 2");
  await fetch(`${server.url}/v1/fleet/brokers/edge-3`, { method: "DELETE" });
  await expect.poll(() => words(page, "edge-3")).toContain("Revoked");
  await page.locator("#words").fill("program");
  await expect.poll(() => names(page)).toEqual(["edge-2"]);
  await page.locator("#words").fill("");
  await page.locator('[data-state="revoked"]').click();
  await expect.poll(() => names(page)).toEqual(["edge-3"]);
  expect(errors).toEqual([]);
  await page.close();
});

test("what comes to a broker is seen on its row's button while somebody looks", async () => {
  // Its destination does not exist: what it has arrives nowhere.
  const broker = await Server.broker({ away: "http://127.0.0.1:9" }, "edge-live", "[fleet]\nallow = [\"watch\"]\n");
  try {
    const { data } = await post<{ data: { ticket: string } }>("v1/fleet/tickets", { group: "edge" });
    execFileSync(binary(), ["broker", "enroll", server.url, data.ticket, "-c", join(broker.data, "broker.toml")]);
    const { page, errors } = await open(browser, `${server.url}/fleet.html`);
    await expect.poll(async () => (await names(page)).includes("edge-live")).toBe(true);
    await expect.poll(() => words(page, "edge-live")).not.toContain("never");
    await page.locator('button[data-watch="edge-live"]').click();
    await expect.poll(() => page.locator("#live .note").innerText()).toMatch(/nothing came yet|measurements in a second/);
    await page.locator("#live input").fill("asked_seconds");
    await page.locator("#live input").press("Enter");
    await expect.poll(() => page.locator("#live .note").innerText()).toContain("nothing came yet");
    const series = [{ labels: { __name__: "asked_seconds", route: "/a" }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }];
    const samples = [{ series: 0, time_ms: Math.floor(Date.now() / 1000) * 1000, histogram: { bins: { "1.2e-3": 99, "2.5e-1": 1 } } }];
    await broker.push({ source: crypto.randomUUID(), sequence: 1, series, samples });
    const line = page.locator("#live tbody tr");
    await expect.poll(async () => (await line.allInnerTexts()).map((text) => text.replace(/\s+/g, " "))).toEqual([expect.stringMatching(/^asked_seconds\{route="\/a"\} 100 1\.[23]\d* ms 1\.[23]\d* ms /)]);
    // Whoever stops ends it at the broker.
    const watches = async (): Promise<string | undefined> => /^ogive_fleet_watches (\d+)/m.exec(await (await fetch(`${broker.url}/metrics`)).text())?.[1];
    await expect.poll(watches).toBe("1");
    await page.locator("#live button.ghost").click();
    await expect.poll(watches).toBe("0");
    expect(errors).toEqual([]);
    await page.close();
  } finally {
    await broker.end();
  }
});

test("why there is nothing to see of a broker is said", async () => {
  await (await Broker.enrol("edge-closed", "edge")).poll({ version: 2 });
  const { page } = await open(browser, `${server.url}/fleet.html`);
  await expect.poll(async () => (await names(page)).includes("edge-closed")).toBe(true);
  await page.locator('button[data-watch="edge-closed"]').click();
  // It polls no more, so that the server gives up after a while.
  await expect.poll(() => page.locator("#live .note").innerText(), { timeout: 30_000 }).toContain("edge-closed");
  await page.close();
});

test("ten thousand brokers are scrolled, sorted and searched without delay", async () => {
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
  const many = Array.from({ length: 10_000 }, (_, at) => ({
    name: `edge-${String(at).padStart(5, "0")}`, group: `group-${at % 20}`, state: at % 50 === 0 ? "drift" : "in_sync", should_run: 8, seen_ms: 1_700_000_000_000, address: "10.0.0.1", clock_offset_seconds: 0.01, token_expires_ms: 1_800_000_000_000, tasks: 0,
    report: { ogive: "0.1.0", version: at % 50 === 0 ? 7 : 8, refused: null, lag_seconds: at / 1000, spool_bytes: at * 1000, spool_bytes_max: 1e9, gap_samples: at % 7, cpu: 0.01, memory_bytes: 4e7, checks: 3, findings: [], destinations: [] },
  }));
  // The first answer has all of them, as that of a server with so many; the others what changed, a tenth.
  let asked = 0;
  await page.route("**/v1/fleet/brokers*", (route) => {
    asked += 1;
    const brokers = asked === 1 ? many : many.filter((_, at) => at % 10 === asked % 10);
    return route.fulfill({ contentType: "application/json", body: JSON.stringify({ now_ms: 1_700_000_005_000, cursor: asked, total: many.length, brokers }) });
  });
  await page.goto(`${server.url}/fleet.html`);
  await expect.poll(() => page.locator("#count").innerText()).toBe("10,000 of 10,000 brokers");
  expect((await names(page)).length).toBeLessThan(80);
  // From top to bottom in 60 steps, one a frame.
  const slow = await page.evaluate(async () => {
    const body = document.querySelector("#rows") as HTMLElement;
    const frame = (): Promise<number> => new Promise((done) => requestAnimationFrame(done));
    const took: number[] = [];
    await frame();
    for (let step = 1; step <= 60; step++) {
      const from = performance.now();
      body.scrollTop = (body.scrollHeight * step) / 60;
      body.dispatchEvent(new Event("scroll"));
      took.push(performance.now() - from);
      await frame();
    }
    took.sort((a, b) => a - b);
    return { median: took[30] as number, last: document.querySelector(".fleet-space .fleet-row:last-child")?.getAttribute("data-name") };
  });
  console.log(`drawing a place of 10,000 rows: ${slow.median.toFixed(2)} ms`);
  // In the order of states, and then of names, the last is in sync.
  expect(slow.last).toBe("edge-09999");
  await page.locator('[data-sort="lag"]').click();
  await expect.poll(async () => (await names(page)).length > 0 && (await page.locator('[aria-rowindex="2"]').count()) >= 0).toBe(true);
  await page.locator("#rows").evaluate((body) => (body.scrollTop = 0));
  await expect.poll(async () => (await names(page))[0]).toBe("edge-09999");
  await page.locator("#words").fill("edge-00042");
  await expect.poll(() => names(page)).toEqual(["edge-00042"]);
  await expect.poll(() => asked).toBeGreaterThan(1);
  await page.close();
});
