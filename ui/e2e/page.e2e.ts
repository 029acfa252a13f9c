import { mkdirSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BinTable } from "../src/bins.ts";
import { level } from "../src/colour.ts";
import { accumulate, layOut } from "../src/cells.ts";
import { formatCount, formatShare } from "../src/format.ts";
import { boxOf, Cable, launch, levelOf, mapOf, open, pixels, Places, type Point, Server, view, type View, viewWhen } from "./harness.ts";

const HICCUP = "ogive_hiccup_seconds";

let server: Server;
let browser: Browser;
let startedAt: number;

beforeAll(async () => {
  browser = await launch();
  startedAt = Date.now();
  server = await Server.start();
});

afterAll(async () => {
  await browser?.close();
  await server?.end();
});

/**
 * Stops the picture, so that what is compared holds still, and gives what the server returned for it. A machine that is busy may
 * store a second's measurements after the picture was asked for: then it is asked for again.
 */
async function paused(query: string, height = 900) {
  const opened = await open(browser, `${server.url}/${query}`, "dark", height);
  await viewWhen(opened.page, (now) => now.columns >= 4);
  await opened.page.locator("#live").click();
  await expect.poll(() => new URL(opened.page.url()).searchParams.has("start")).toBe(true);
  // Colours go by what is usual in view: as loaded, not as it was when the last second came.
  await opened.page.reload();
  await viewWhen(opened.page, (again) => again.columns >= 4);
  for (let tries = 0; tries < 20; tries++) {
    await opened.page.waitForTimeout(1500);
    const now = await view(opened.page);
    const { columns } = await server.heatmap(HICCUP, now);
    if (columns.reduce((sum, column) => sum + Number(column.count), 0) === now.total) return { ...opened, now, columns };
    await opened.page.reload();
    await viewWhen(opened.page, (again) => again.columns >= 4);
  }
  throw new Error("the picture does not come to what is stored");
}

/** How many pixels of a slot are cells; the picture is live, and what comes late is drawn late. */
async function drawn(page: Page, slotOf: (now: View) => number): Promise<number> {
  const now = await view(page);
  const [slot, places, colours] = [slotOf(now), new Places(now), mapOf("ember", "dark")];
  const points = Array.from({ length: now.plotHeight }, (_, y): Point => [now.left + (slot - now.first + 0.5) * places.width, now.top + y + 0.5]);
  return (await pixels(page, points)).filter((pixel) => levelOf(colours, pixel) > 0).length;
}

describe("the first page", () => {
  test("shows a heat map of real measurements without a click, and says how soon", async () => {
    const { page, errors } = await open(browser, server.url);
    await viewWhen(page, (now) => now.columns >= 1 && now.total > 0);
    console.log(`first cells ${((Date.now() - startedAt) / 1000).toFixed(1)} s after the start of the server (aim: 10 s)`);
    expect(await page.locator("#query").inputValue()).toBe(HICCUP);
    // Cells are there as colours: sample the newest columns and count the pixels that are levels of the map.
    await expect.poll(async () => Math.max(...(await Promise.all([0, 1, 2].map((ago) => drawn(page, (now) => now.last - ago)))))).toBeGreaterThan(5);
    expect(errors).toEqual([]);
    await page.close();
  });

  test.each(["0", "1"])("colours of cells are those of the counts that the server returns (density %s)", async (density) => {
    const { page, errors, now, columns } = await paused(`?range=30s&q=&density=${density}`, 2600);
    const colours = mapOf("ember", "dark");
    const places = new Places(now);
    // The page is tall, since real delays span six decades and more: so that bins have pixels that are theirs alone.
    const wanted: { points: Point[]; level: number; text: string }[] = [];
    // By density, bins with few samples are drawn over one width: a row shows the sum of those around it.
    const table = new BinTable();
    const drawn = columns.map((column) => table.column(column));
    const usual = new Float64Array(table.size);
    for (const { ids, counts } of drawn) ids.forEach((id, i) => (usual[id]! += (counts[i] as number) / drawn.length));
    const geometry = layOut(table, places.axis, true, usual);
    const rows = drawn.map((column) => {
      const amounts = new Float64Array(Math.round(places.axis.height));
      accumulate(column, geometry, 1, amounts);
      return amounts;
    });
    for (const [at, column] of columns.entries()) {
      const slot = Math.round(column.t / now.step);
      for (const [lo, hi, count] of column.bins as [number, number, number][]) {
        const [top, bottom] = places.span(lo, hi);
        if (bottom - top < 4 || slot > now.last) continue;
        // Grid lines and the ends of the picture may cover one of the three points, not all.
        const points = [0.3, 0.5, 0.7].map((part) => places.cell(slot, lo, hi, part, density === "0" ? part : 0.5));
        const row = Math.floor(((points[0] as Point)[1] - now.top) * now.ratio);
        const amount = density === "0" ? Number(count) : ((rows[at] as Float64Array)[row] as number);
        wanted.push({ points, level: level(amount, now.max, "sqrt"), text: `[${lo}, ${hi}) at ${column.t} counts ${count}` });
      }
    }
    expect(wanted.length).toBeGreaterThan(40);
    const seen = await pixels(page, wanted.flatMap((cell) => cell.points));
    const wrong = wanted.filter((cell, i) => {
      const levels = seen.slice(i * 3, i * 3 + 3).map((pixel) => levelOf(colours, pixel));
      return levels.filter((found) => found > 0 && Math.abs(found - cell.level) <= 1).length < 2;
    });
    expect(wrong.map((cell) => cell.text)).toEqual([]);
    // Different counts have different colours, so that the comparison above says something.
    expect(new Set(wanted.map((cell) => cell.level)).size).toBeGreaterThan(5);
    expect(errors).toEqual([]);
    await page.close();
  });

  test("moves each second", async () => {
    const { page } = await open(browser, `${server.url}/?range=1m&q=`);
    const before = await viewWhen(page, (now) => now.columns >= 2);
    const after = await viewWhen(page, (now) => now.last >= before.last + 3);
    // The newest whole second has come in; the window lets an old one go, which may have held more.
    const come = async (): Promise<number> => {
      const { columns } = await server.heatmap(HICCUP, { ...after, first: before.last + 1, last: after.last });
      return columns.reduce((sum, column) => sum + Number(column.count), 0);
    };
    await expect.poll(come).toBeGreaterThan(0);
    await expect.poll(() => drawn(page, (now) => now.last - 1)).toBeGreaterThan(5);
    await page.close();
  });

  test("leaves seconds before the first measurement blank: no data is not zero", async () => {
    const { page, now, columns } = await paused("?range=15m&q=");
    const slots = new Set(columns.map((column) => Math.ceil(column.t / now.step - 1e-6)));
    const places = new Places(now);
    const colours = mapOf("ember", "dark");
    const of = (slot: number): Point[] => Array.from({ length: 40 }, (_, i) => [now.left + (slot - now.first + 0.5) * places.width, now.top + 20.5 + i * 7]);
    const blank = Array.from({ length: 20 }, (_, i) => now.first + 2 + i).filter((slot) => !slots.has(slot));
    expect(blank.length).toBeGreaterThan(10);
    for (const slot of blank) expect((await pixels(page, of(slot))).some((pixel) => levelOf(colours, pixel) >= 0)).toBe(false);
    const full = [...slots].filter((slot) => slot < now.last)[0] as number;
    expect((await pixels(page, of(full))).some((pixel) => levelOf(colours, pixel) === 0)).toBe(true);
    await page.close();
  });
});

describe("reading the picture", () => {
  test("the count under the mouse and under the keyboard's cursor is the server's count", async () => {
    const { page, now, columns } = await paused("?range=30s&q=0.5");
    const places = new Places(now);
    const column = columns.filter((one) => one.t < (now.last - 1) * now.step).at(-1)!;
    const slot = Math.round(column.t / now.step);
    const box = await boxOf(page.locator("#overlay"));
    const bins = [...(column.bins as [number, number, number][])].sort((a, b) => Number(b[2]) - Number(a[2])).slice(0, 5);
    for (const [lo, hi, count] of bins) {
      const [x, y] = places.cell(slot, lo, hi, 0.5, 0.5);
      await page.mouse.move(box.x + x, box.y + y);
      await expect.poll(() => page.locator("#tip dd[data-key=count]").innerText()).toBe(formatCount(Number(count)));
      const text = await page.locator("#tip").innerText();
      expect(text).toContain(formatShare(Number(count) / Number(column.count)));
      const below = (column.bins as [number, number, number][]).filter((bin) => bin[0] <= lo).reduce((sum, bin) => sum + Number(bin[2]), 0);
      expect(text).toContain(formatShare(below / Number(column.count)));
    }
    await page.mouse.move(5, 5);
    await page.locator("#overlay").focus();
    await page.keyboard.press("Home");
    for (let i = now.first; i < slot; i++) await page.keyboard.press("ArrowRight");
    for (let i = 0; i < 400; i++) await page.keyboard.press("ArrowDown");
    const lowest = column.bins[0] as [number, number, number];
    await expect.poll(() => page.locator("#tip dd[data-key=count]").innerText()).toBe(formatCount(Number(lowest[2])));
    await page.keyboard.press("ArrowUp");
    await expect.poll(() => page.locator("#tip dd[data-key=count]").innerText()).toBe(formatCount(Number(column.bins[1]?.[2])));
    await expect.poll(() => page.locator("#voice").innerText()).toContain("count");
    await page.close();
  });

  test("a click on the value axis splits what is in view, exactly", async () => {
    const { page, now, columns } = await paused("?range=30s");
    const box = await boxOf(page.locator("#overlay"));
    const places = new Places(now);
    await page.mouse.click(box.x + 30, box.y + now.top + places.axis.y(1e-4) / now.ratio);
    await expect.poll(() => new URL(page.url()).searchParams.get("threshold")).not.toBeNull();
    const threshold = Number(new URL(page.url()).searchParams.get("threshold"));
    let below = 0;
    let total = 0;
    for (const column of columns) {
      for (const [lo, hi, count] of column.bins as [number, number, number][]) {
        total += Number(count);
        if (hi <= threshold) below += Number(count);
        else expect(lo).toBeGreaterThanOrEqual(threshold);
      }
    }
    await expect.poll(() => page.locator("[data-fact=threshold] .value").innerText()).toBe(formatShare(below / total));
    await page.close();
  });

  test("dragging zooms into the time that was marked, and back leads back", async () => {
    const { page } = await open(browser, `${server.url}/?range=1m`);
    await viewWhen(page, (view) => view.columns >= 4);
    const now = await view(page);
    const box = await boxOf(page.locator("#overlay"));
    const from = Date.now();
    await page.mouse.move(box.x + now.left + now.plotWidth * 0.5, box.y + 100);
    await page.mouse.down();
    await page.mouse.move(box.x + now.left + now.plotWidth * 0.9, box.y + 140, { steps: 5 });
    await page.mouse.up();
    // Time went on under the mouse, however long that took.
    const moved = Math.ceil((Date.now() - from) / 1000);
    await expect.poll(() => new URL(page.url()).searchParams.has("start")).toBe(true);
    const params = new URL(page.url()).searchParams;
    const seconds = Number(params.get("end")) - Number(params.get("start"));
    expect(seconds).toBeGreaterThanOrEqual(22);
    expect(seconds).toBeLessThanOrEqual(27 + moved);
    await page.locator("#back").click();
    await expect.poll(() => new URL(page.url()).searchParams.get("range")).toBe("1m");
    await page.close();
  });
});

describe("asking", () => {
  test("a refused expression shows the server's sentence and the place", async () => {
    const { page } = await open(browser, server.url);
    await viewWhen(page, (now) => now.columns >= 1);
    const query = "sum(ogive_hiccup_seconds))";
    await page.locator("#query").fill(query);
    await page.keyboard.press("Enter");
    const wanted = await server.json<{ status: string; error: string }>("v1/heatmap", { query, start: "1700000000", end: "1700000010", step: "1" });
    expect(wanted.status).toBe("error");
    await expect.poll(() => page.locator("#query-error strong").innerText()).toBe(wanted.error);
    expect(await page.locator("#query-error").isVisible()).toBe(true);
    if (/\d+:\d+/.test(wanted.error)) expect(await page.locator("#query-error mark").count()).toBe(1);
    await page.locator("#query").fill(HICCUP);
    await page.keyboard.press("Enter");
    await expect.poll(() => page.locator("#query-error").isVisible()).toBe(false);
    await page.close();
  });

  test("numbers are drawn as lines", async () => {
    const { page, errors } = await open(browser, `${server.url}/?range=1m&query=${encodeURIComponent(`histogram_quantile(0.9, ${HICCUP})`)}`);
    await page.locator("#lines canvas").waitFor();
    const coloured = (): Promise<number> =>
      page.evaluate(() => {
        const canvas = document.querySelector("#lines canvas") as HTMLCanvasElement;
        const { data } = (canvas.getContext("2d") as CanvasRenderingContext2D).getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        // The first hue of the lines is #56b4e9.
        for (let i = 0; i < data.length; i += 4) if (data[i] === 0x56 && data[i + 1] === 0xb4 && data[i + 2] === 0xe9) count++;
        return count;
      });
    await expect.poll(coloured).toBeGreaterThan(10);
    expect(errors).toEqual([]);
    await page.close();
  });

  test("a text is a table, and is never markup", async () => {
    const { page, errors } = await open(browser, `${server.url}/?query=${encodeURIComponent('"deployed <b>v2</b>"')}`);
    await expect.poll(() => page.locator("#table td").last().innerText()).toBe("deployed <b>v2</b>");
    expect(await page.locator("#table td b").count()).toBe(0);
    expect(errors).toEqual([]);
    await page.close();
  });

  test("a series of texts is a table, newest first", async () => {
    const now = Date.now();
    const sent = ["started <i>1.2</i>", "stopped: disk full"].map((text, at) => ({ series: 0, time_ms: now - 5_000 + at * 1_000, text }));
    const series = [{ labels: { __name__: "e2e_log", job: "a" }, kind: "text" }];
    const body = JSON.stringify({ source: crypto.randomUUID(), sequence: 1, series, samples: sent });
    const answer = await fetch(`${server.url}/v1/batch`, { method: "POST", headers: { "content-type": "application/json" }, body });
    expect(((await answer.json()) as { accepted: number }).accepted).toBe(2);
    const { page, errors } = await open(browser, `${server.url}/?query=e2e_log&range=1m`);
    await expect.poll(() => page.locator("#table tbody tr").count()).toBe(2);
    expect(await page.locator("#table tbody tr td:last-child").allInnerTexts()).toEqual(["stopped: disk full", "started <i>1.2</i>"]);
    expect(errors).toEqual([]);
    await page.close();
  });

  test("samples of a range are a table", async () => {
    const { page } = await open(browser, `${server.url}/?query=${encodeURIComponent("ogive_ingest_samples_total[1m]")}`);
    await expect.poll(() => page.locator("#table tbody tr").count()).toBeGreaterThan(0);
    await page.close();
  });

  test("a click in the series list asks for it, and the address keeps it", async () => {
    const { page } = await open(browser, server.url);
    await page.locator("#series input").fill("hiccup");
    await page.locator("#series .item", { hasText: HICCUP }).first().click();
    await page.locator("#series .chip").first().click();
    await expect.poll(() => new URL(page.url()).searchParams.get("query")).toMatch(/^ogive_hiccup_seconds\{\w+="[^"]*"\}$/);
    await page.reload();
    await expect.poll(() => page.locator("#query").inputValue()).toMatch(/^ogive_hiccup_seconds\{/);
    await viewWhen(page, (now) => now.columns >= 1);
    await page.close();
  });

  test("a name that nobody sends says what to do", async () => {
    const { page } = await open(browser, `${server.url}/?query=nobody_sends_this`);
    await expect.poll(() => page.locator("#empty").innerText()).toContain("nobody_sends_this");
    expect(await page.locator("#empty pre").innerText()).toContain("/v1/batch");
    await page.close();
  });

  test("the documentation is a click away, and can be searched, or says how it is built", async () => {
    const { page, errors } = await open(browser, `${server.url}/`);
    await page.getByRole("link", { name: "Docs", exact: true }).click();
    await page.waitForURL(`${server.url}/docs/`);
    if ((await page.locator("h1", { hasText: "The book is not in this binary" }).count()) === 1) {
      expect(await page.locator("body").innerText()).toContain("make book");
    } else {
      await page.locator('a[href="alerts.html"]').first().click();
      await expect.poll(() => page.locator("main h1").innerText()).toBe("Rules and alerts");
      await page.goto(`${server.url}/docs/index.html?search=Alertmanager`);
      await expect.poll(() => page.locator("#mdbook-searchresults li").count()).toBeGreaterThan(0);
    }
    expect(errors).toEqual([]);
    await page.close();
  });
});

describe("data that are sent", () => {
  const NAME = "e2e_known_seconds";

  test("a known histogram is drawn as exactly its bins", async () => {
    const end = Math.floor(Date.now() / 1000) - 5;
    const batch = {
      source: "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
      sequence: 1,
      series: [{ labels: { __name__: NAME }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }],
      samples: [0, 1, 2, 4].map((ago) => ({ series: 0, time_ms: (end - ago) * 1000, histogram: { bins: { "1.2e-3": 400, "3.5e-2": 100 } } })),
    };
    expect(await server.push(batch)).toMatchObject({ accepted: 4, duplicate: 0 });
    // The same again changes nothing.
    expect(await server.push(batch)).toMatchObject({ accepted: 0, duplicate: 4 });
    const { page, errors } = await open(browser, `${server.url}/?query=${NAME}&start=${end - 14}&end=${end + 1}&q=&density=0&scale=linear`);
    const now = await viewWhen(page, (one) => one.columns === 4);
    expect(now.total).toBe(2000);
    const places = new Places(now);
    const colours = mapOf("ember", "dark");
    // The log axis by hand, so that a mistake in the page's own is seen.
    const { lo: least, hi: most } = now.domain.positive!;
    const rowOf = (value: number): number => (Math.log10(most / value) / Math.log10(most / least)) * now.plotHeight;
    for (let slot = now.first; slot <= now.last; slot++) {
      const sent = [0, 1, 2, 4].includes(end - slot * now.step);
      const rows = Array.from({ length: now.plotHeight }, (_, y): Point => [now.left + (slot - now.first + 0.37) * places.width, now.top + y + 0.5]);
      const levels = (await pixels(page, rows)).map((pixel) => levelOf(colours, pixel));
      if (!sent) {
        expect(levels.some((found) => found >= 0)).toBe(false);
        continue;
      }
      for (const [lo, hi, count] of [[1.2e-3, 1.3e-3, 400], [3.5e-2, 3.6e-2, 100]] as const) {
        const [top, bottom] = [rowOf(hi), rowOf(lo)];
        for (let y = Math.ceil(top); y < Math.floor(bottom); y++) expect(Math.abs((levels[y] as number) - level(count, now.max, "linear"))).toBeLessThanOrEqual(1);
      }
      const inBins = (y: number): boolean =>
        [[1.2e-3, 1.3e-3], [3.5e-2, 3.6e-2]].some(([lo, hi]) => {
          return y >= Math.floor(rowOf(hi as number)) && y < Math.ceil(rowOf(lo as number));
        });
      expect(levels.filter((found, y) => found > 0 && !inBins(y))).toEqual([]);
    }
    expect(errors).toEqual([]);
    await page.close();
  });

  test("seconds that a sender may still deliver are drawn apart from empty ones", async () => {
    const name = "e2e_flushed_seconds";
    const source = crypto.randomUUID();
    const begun = Math.floor(Date.now() / 1000);
    let [sequence, upTo] = [0, begun - 5];
    // One cell for each second since the last time, every five seconds or, on a busy machine, somewhat later.
    const flush = async (): Promise<void> => {
      const [from, end] = [upTo, Math.floor(Date.now() / 1000)];
      if (end === from) return;
      upTo = end;
      const cell = (_: unknown, at: number) => ({ series: 0, time_ms: (from + at + 1) * 1000, histogram: { bins: { "1.2e-3": 40, "3.5e-2": 10 } } });
      const series = [{ labels: { __name__: name }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }];
      await server.push({ source, sequence: ++sequence, series, samples: Array.from({ length: end - from }, cell) });
    };
    await flush();
    const timer = setInterval(() => void flush(), 5_000);
    const { page, errors } = await open(browser, `${server.url}/?query=${name}&range=3m&q=&density=0`);
    try {
      const now = await viewWhen(page, (one) => one.columns >= 5 && one.pending.length > 0);
      // What is under the hatching is the commonest colour of a slot.
      const ground = async (of: View, slot: number): Promise<string> => {
        const { width } = new Places(of);
        const points = Array.from({ length: of.plotHeight }, (_, y): Point => [of.left + (slot - of.first + 0.5) * width, of.top + y + 0.5]);
        const counts = new Map<string, number>();
        for (const pixel of await pixels(page, points)) counts.set(String(pixel), (counts.get(String(pixel)) ?? 0) + 1);
        return ([...counts].sort((a, b) => b[1] - a[1])[0] as [string, number])[0];
      };
      // A slot before the first flush is empty. The picture moves: both are looked at until they were in one picture.
      const empty = begun - 20;
      await expect
        .poll(async () => {
          const seen = await view(page);
          const waiting = seen.pending.at(-1)?.[1];
          if (waiting === undefined || empty < seen.first) return "no slot waits, or none is empty";
          const colours = [await ground(seen, waiting), await ground(seen, empty)];
          const again = await view(page);
          if (again.first !== seen.first || !again.pending.some(([from, to]) => from <= waiting && waiting <= to)) return "it moved";
          return colours[0] === colours[1] ? "alike" : "apart";
        })
        .toBe("apart");
      // The late cells come, and take the place of what was not known.
      const waited = now.pending[0]![0];
      await expect.poll(() => drawn(page, () => waited)).toBeGreaterThan(0);
      expect((await view(page)).pending.some(([from, to]) => from <= waited && waited <= to)).toBe(false);
    } finally {
      clearInterval(timer);
    }
    expect(errors).toEqual([]);
    await page.close();
  });
});

describe("a server that goes and comes", () => {
  test("the loss is said, and the picture goes on after the return", async () => {
    const { page } = await open(browser, `${server.url}/?range=1m`);
    const before = await viewWhen(page, (now) => now.columns >= 2);
    await server.stop();
    await expect.poll(() => page.locator("#lost").isVisible()).toBe(true);
    expect(await page.locator("#lost").innerText()).toContain("does not answer");
    await server.run();
    await expect.poll(() => page.locator("#lost").isVisible()).toBe(false);
    await viewWhen(page, (now) => now.last > before.last + 3);
    await page.close();
  });

  test("seconds that were measured while the connection was cut are there afterwards", async () => {
    const cable = new Cable(server.port);
    await cable.plug();
    const { page } = await open(browser, `${cable.url}/?range=1m`);
    await viewWhen(page, (now) => now.columns >= 2);
    await cable.cut();
    await expect.poll(() => page.locator("#lost").isVisible()).toBe(true);
    // Longer than what a page that has just been loaded asks for a second time.
    await page.waitForTimeout(12_000);
    await cable.plug();
    await expect.poll(() => page.locator("#lost").isVisible()).toBe(false);
    const missing = async (): Promise<number> => {
      const now = await view(page);
      const { columns } = await server.heatmap(HICCUP, { ...now, last: now.last - 1 });
      return columns.length > 14 ? columns.length - now.columns : Infinity;
    };
    await expect.poll(missing).toBeLessThanOrEqual(0);
    await page.close();
    await cable.cut();
  });
});

describe("how it looks", () => {
  test.each(["dark", "light"] as const)("%s", async (theme) => {
    const wide = await open(browser, `${server.url}/?q=0.5,0.9,0.99${process.env["OGIVE_SCREENSHOT"] === "1" ? "&range=2m" : "&range=30s"}`, theme);
    const { page, errors } = wide;
    // The README's picture shows a filled view.
    const enough = process.env["OGIVE_SCREENSHOT"] === "1" ? 110 : 5;
    await viewWhen(page, (one) => one.columns >= enough, 150_000);
    const ground = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const lightness = Math.max(...(ground.match(/\d+/g) ?? []).map(Number));
    expect(theme === "dark" ? lightness < 60 : lightness > 200).toBe(true);
    const colours = mapOf("ember", theme);
    const shades = async (): Promise<number> => {
      const now = await view(page);
      const places = new Places(now);
      const points: Point[] = [];
      for (let slot = now.last - 4; slot < now.last; slot++) {
        for (let y = 0; y < now.plotHeight; y++) points.push([now.left + (slot - now.first + 0.4) * places.width, now.top + y + 0.5]);
      }
      const levels = (await pixels(page, points)).map((pixel) => levelOf(colours, pixel));
      return new Set(levels.filter((found) => found > 0)).size;
    };
    await expect.poll(shades).toBeGreaterThan(5);
    if (process.env["OGIVE_SCREENSHOT"] === "1") {
      const path = resolve(import.meta.dirname, `../../docs/images/heatmap${theme === "dark" ? "" : "-light"}.png`);
      mkdirSync(dirname(path), { recursive: true });
      const [now, box] = [await view(page), await boxOf(page.locator("#overlay"))];
      await page.mouse.move(box.x + now.left + now.plotWidth * 0.55, box.y + now.top + now.plotHeight * 0.5);
      await page.waitForTimeout(300);
      await page.screenshot({ path });
    }
    expect(errors).toEqual([]);
    await page.close();
  }, 180_000);
});

describe("data as senders have them", () => {
  /** A whole minute some hours ago. */
  const T = Math.floor(Date.now() / 60_000) * 60 - 3 * 3600;
  const source = (): string => crypto.randomUUID();
  const range = (last: number): string => `start=${T}&end=${T + last}`;
  const fact = (page: Page, name: string): Promise<string> => page.locator(`[data-fact=${name}]`).innerText();

  beforeAll(async () => {
    // Cells of 15 s, with a gap of five minutes, for two routes.
    const times = Array.from({ length: 80 }, (_, i) => T + (i + 1) * 15).filter((t) => t <= T + 600 || t > T + 900);
    const cell = (series: number, t: number, bins: Record<string, number>) => ({ series, time_ms: t * 1000 + 7, histogram: { bins } });
    const named = (route: string) => ({ labels: { __name__: "wide_seconds", route }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 15_000 });
    const samples = times.flatMap((t) => [cell(0, t, { "1.2e-3": 30, "8.5e-3": 3, "1.1e-2": 2 }), cell(1, t, { "1.2e-3": 10 })]);
    await server.push({ source: source(), sequence: 1, series: [named("/a"), named("/b")], samples });
    const bounds = ["0.01", "0.1", "1", "+Inf"];
    const series = bounds.map((le) => ({ labels: { __name__: "classic_seconds_bucket", le }, kind: "float", temporality: "cumulative" }));
    const counters = bounds.flatMap((_, at) => Array.from({ length: 81 }, (_, i) => ({ series: at, time_ms: (T + i * 15) * 1000 + 7, float: i * ([4, 7, 9, 10][at] as number) })));
    await server.push({ source: source(), sequence: 1, series, samples: counters });
  });

  test("columns are as wide as cells, gaps are gaps, and each cell counts once", async () => {
    const { page, errors } = await open(browser, `${server.url}/?query=wide_seconds&q=&${range(1200)}`);
    const now = await viewWhen(page, (one) => one.columns > 0);
    // The last cell ends 7 ms behind the range.
    expect([now.step, now.columns]).toEqual([15, 59]);
    expect(await fact(page, "total")).toContain("2,655");
    expect(await fact(page, "total")).toContain("2.21/s");
    const [places, colours] = [new Places(now), mapOf("ember", "dark")];
    // Without quantiles, whose bands would tint these.
    const filled = async (slot: number): Promise<boolean> => levelOf(colours, (await pixels(page, [places.cell(slot, 0.0085, 0.0086, 0.5, 0.5)]))[0]!) > 0;
    const shown = (minutes: number[]): Promise<boolean[]> => Promise.all(minutes.map((minute) => filled(Math.ceil((T + minute * 60) / 15) + 1)));
    await expect.poll(() => shown([1, 5, 9, 17])).toEqual([true, true, true, true]);
    expect(await shown([11, 13])).toEqual([false, false]);
    for (const query of ["sum(increase(wide_seconds[1m]))", "sum(rate(wide_seconds[5m]))"]) {
      await page.goto(`${server.url}/?query=${encodeURIComponent(query)}&${range(1200)}`);
      await expect.poll(() => fact(page, "total")).toContain("2,655");
    }
    await page.goto(`${server.url}/?query=${encodeURIComponent("avg(wide_seconds)")}&${range(1200)}`);
    await expect.poll(() => fact(page, "total")).toContain("no exact distribution for this expression: `avg`");
    expect(errors).toEqual([]);
    await page.close();
  });

  test("groups are drawn side by side, alone, or merged, as is chosen", async () => {
    const { page, errors } = await open(browser, `${server.url}/?query=${encodeURIComponent("sum by (route) (wide_seconds)")}&${range(1200)}`);
    await expect.poll(() => page.locator("#multiples .panel b").allInnerTexts()).toEqual(['{route="/a"}', '{route="/b"}']);
    await page.locator("#multiples .panel").first().click();
    await expect.poll(() => fact(page, "total")).toContain("2,065");
    const choice = page.locator("[data-control=group]");
    expect(await choice.locator("option").allInnerTexts()).toEqual(["side by side", '{route="/a"} · 2,065', '{route="/b"} · 590', "all 2, merged"]);
    await choice.selectOption('{route="/b"}');
    await expect.poll(() => fact(page, "total")).toContain("590");
    await choice.selectOption("*");
    await expect.poll(() => fact(page, "total")).toContain("2,655");
    expect(errors).toEqual([]);
    await page.close();
  });

  test("a click on classic buckets shows their heat map and quantiles", async () => {
    const { page, errors } = await open(browser, `${server.url}/?${range(1200)}`);
    await page.locator("#series input").fill("classic_");
    await page.locator("#series button.item", { hasText: "classic_" }).first().click();
    const now = await viewWhen(page, (one) => one.columns > 70);
    expect([now.step, now.total]).toEqual([15, 790]);
    expect(await fact(page, "p50")).toMatch(/10.*100 ms/s);
    expect(errors).toEqual([]);
    await page.close();
  });
});
