/** What the page fetches: how much, and that it is the same as the JSON that everybody else gets. */

import { get, type IncomingMessage } from "node:http";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import type { Response } from "playwright-core";
import { beforeAll, describe, expect, test } from "vitest";
import type { Heatmap } from "../src/api.ts";
import { KIND, readFrame } from "../src/frame.ts";
import { open, Server, shared, viewWhen } from "./harness.ts";

const NAME = "e2e_traffic_seconds";
const SECONDS = 300;
/** Samples of a second. */
const PER_SECOND = 1000;

const all = shared();
let end: number;

/** A thousand samples of a second, spread as delays are, by a generator of its own: 100 bins and more. */
function second(random: () => number): Record<string, number> {
  const bins: Record<string, number> = {};
  for (let i = 0; i < PER_SECOND; i++) {
    const normal = Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
    const value = 0.002 * Math.exp(normal * 0.8) * (random() < 0.01 ? 40 : 1);
    const power = Math.floor(Math.log10(value)) - 1;
    const bin = `${Math.floor(value / 10 ** power)}e${power}`;
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  return bins;
}

const bodyBytes = async (response: Response): Promise<number> => (await response.body()).length;

beforeAll(async () => {
  end = Math.floor(Date.now() / 1000) - 10;
  let seed = 5;
  const random = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
  const series = [{ labels: { __name__: NAME }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }];
  const samples = Array.from({ length: SECONDS }, (_, ago) => ({ series: 0, time_ms: (end - ago) * 1000, histogram: { bins: second(random) } }));
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: SECONDS });
  const gauges = Array.from({ length: 5000 }, (_, i) => ({ labels: { __name__: "e2e_gauge", id: String(i).padStart(4, "0") }, kind: "float" }));
  const values = gauges.flatMap((_, i) => [0, 15, 30].map((ago) => ({ series: i, time_ms: (end - ago) * 1000, float: i })));
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series: gauges, samples: values })).toMatchObject({ accepted: 15_000 });
});

describe("the heat map", () => {
  test("five minutes of seconds are 40 KB at most, and hold each sample that was sent", async () => {
    const { page, errors } = await open(all.browser, "about:blank");
    const devtools = await page.context().newCDPSession(page);
    await devtools.send("Network.enable");
    const [paths, sizes] = [new Map<string, string>(), new Map<string, number>()];
    const scripts: Promise<number>[] = [];
    devtools.on("Network.responseReceived", ({ requestId, response }) => {
      paths.set(requestId, `${new URL(response.url).pathname} ${response.headers["content-encoding"] ?? response.headers["Content-Encoding"] ?? ""} ${response.mimeType}`);
    });
    devtools.on("Network.loadingFinished", ({ requestId, encodedDataLength }) => {
      const path = paths.get(requestId) ?? "";
      sizes.set(path, Math.max(sizes.get(path) ?? 0, encodedDataLength));
    });
    page.on("response", (response) => {
      if (response.url().endsWith(".js")) scripts.push(bodyBytes(response));
    });
    await page.goto(`${all.server.url}/?query=${NAME}&start=${end - SECONDS}&end=${end}`);
    const now = await viewWhen(page, (one) => one.columns === SECONDS);
    expect([now.step, now.total]).toEqual([1, SECONDS * PER_SECOND]);
    page.removeAllListeners("response");
    const scriptBytes = (await Promise.all(scripts)).reduce((sum, bytes) => sum + bytes, 0);
    const [path, size] = [...sizes].find(([name]) => name.startsWith("/v1/heatmap")) ?? ["", Infinity];
    console.log(`${path}: ${size} bytes for ${SECONDS} columns; scripts before anything is opened: ${scriptBytes} bytes`);
    expect(path).toContain(KIND);
    expect(path).toMatch(/ (zstd|br|gzip) /);
    expect(size).toBeLessThanOrEqual(40_000);
    expect(scriptBytes).toBeGreaterThan(50_000);
    expect(scriptBytes).toBeLessThanOrEqual(150_000);
    // Nothing is fetched before the first paint: the style sheet is in the page.
    const blocking = await page.evaluate(() => performance.getEntriesByType("resource").filter((one) => (one as PerformanceResourceTiming & { renderBlockingStatus?: string }).renderBlockingStatus === "blocking").map((one) => one.name));
    expect(blocking).toEqual([]);
    expect(errors).toEqual([]);
    await page.close();
  });

  test("a server whose policy forbids styles inside of pages has the same page", async () => {
    const page = await all.browser.newPage();
    const sheets: string[] = [];
    page.on("response", (response) => response.url().endsWith(".css") && sheets.push(response.url()));
    // The policy comes with the page alone; what the page fetches goes on while the test ends, and needs nobody in between.
    await page.route((url) => url.pathname === "/", async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, headers: { ...response.headers(), "content-security-policy": "default-src 'self'" } });
    });
    await page.goto(`${all.server.url}/?query=${NAME}&start=${end - SECONDS}&end=${end}`);
    await viewWhen(page, (one) => one.columns === SECONDS);
    expect(sheets).toHaveLength(1);
    expect(await page.evaluate(() => getComputedStyle(document.body).backgroundColor)).not.toBe("rgba(0, 0, 0, 0)");
    await page.close();
  });

  test("a button that is pressed before the program runs is pressed", async () => {
    const page = await all.browser.newPage();
    let release = (): void => {};
    const held = new Promise<void>((done) => (release = done));
    await page.route(/\/assets\/main-/, async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`${all.server.url}/?query=${NAME}&start=${end - SECONDS}&end=${end}`, { waitUntil: "commit" });
    await page.locator("#range-button").click();
    expect(await page.locator("#range-menu .presets button").count()).toBe(0);
    release();
    await page.locator("#range-menu .presets button").first().waitFor();
    await page.close();
  });

  test("the bytes say what the JSON says", async () => {
    const view = { first: end - SECONDS + 1, last: end, step: 1 } as Parameters<Server["heatmap"]>[1];
    const json = await all.server.heatmap(NAME, view);
    const params = new URLSearchParams({ query: NAME, start: String(view.first), end: String(view.last), step: "1", quantiles: "0.5,0.9,0.99,0.999" });
    const answer = await fetch(`${all.server.url}/v1/heatmap?${params}`, { headers: { accept: KIND } });
    expect(answer.headers.get("content-type")).toBe(KIND);
    const { head, columns } = readFrame(new Uint8Array(await answer.arrayBuffer()));
    const framed = (head as { data: Heatmap }).data;
    const plain = (column: Heatmap["columns"][number]) => ({ ...column, count: Number(column.count) });
    expect(columns.pop()).toEqual(plain(json.distribution as Heatmap["columns"][number]));
    expect(columns).toEqual(json.columns.map(plain));
    expect({ ...framed, columns: 0, distribution: 0, quantiles: 0 }).toEqual({ ...json, columns: 0, distribution: 0, quantiles: 0 });
    // Whoever can read JSON alone gets it, and refusals are JSON for everybody.
    const refused = await fetch(`${all.server.url}/v1/heatmap?query=(&start=1&end=2&step=1`, { headers: { accept: KIND } });
    expect([refused.status, ((await refused.json()) as { status: string }).status]).toEqual([400, "error"]);
  });

  test.each([["br", brotliDecompressSync], ["gzip", gunzipSync]] as const)("answers are compressed as %s for whoever takes nothing else", async (encoding, unpack) => {
    const params = new URLSearchParams({ query: NAME, start: String(end - SECONDS + 1), end: String(end), step: "1", quantiles: "0.5,0.9,0.99,0.999" });
    const bodies = [];
    for (const accept of [KIND, "application/json"]) {
      const answer = await new Promise<IncomingMessage>((done) => get(`${all.server.url}/v1/heatmap?${params}`, { headers: { accept, "accept-encoding": encoding } }, done));
      expect(answer.headers["content-encoding"]).toBe(encoding);
      const pieces: Buffer[] = [];
      for await (const piece of answer) pieces.push(piece as Buffer);
      const packed = Buffer.concat(pieces);
      const whole = unpack(packed);
      console.log(`${accept}: ${whole.length} bytes, as ${encoding} ${packed.length}`);
      bodies.push(whole);
    }
    const [frame, json] = bodies as [Buffer, Buffer];
    const total = (columns: { count: unknown }[]): number => columns.reduce((sum, column) => sum + Number(column.count), 0);
    expect(total((JSON.parse(json.toString()) as { data: Heatmap }).data.columns)).toBe(SECONDS * PER_SECOND);
    expect(total(readFrame(frame).columns)).toBe(2 * SECONDS * PER_SECOND);
  });
});

test("of 5,000 gauges 40 are fetched and drawn, and the page says so", async () => {
  const { page, errors } = await open(all.browser, "about:blank");
  const answer = page.waitForResponse((response) => response.url().includes("query_range"));
  const [first] = await Promise.all([answer.then(bodyBytes), page.goto(`${all.server.url}/?query=e2e_gauge&start=${end - 60}&end=${end}`)]);
  await expect.poll(() => page.locator("#notices").innerText()).toContain("The first 40 of 5000 series are drawn");
  await page.locator("#lines canvas").waitFor();
  console.log(`40 of 5,000 gauges: ${first} bytes of JSON`);
  expect(first).toBeLessThan(100_000);
  expect(errors).toEqual([]);
  await page.close();
});
