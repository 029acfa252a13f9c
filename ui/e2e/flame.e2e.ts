/** Stacks: a real recording where the kernel can be observed, and known ones, as a flame graph and as a landscape by WebGL. */

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Browser, type Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callsOf, type Call } from "../src/folded.ts";
import { binary, boxOf, open, Server } from "./harness.ts";

let browser: Browser;
let server: Server;
const files = mkdtempSync(join(tmpdir(), "ogive-stacks-"));

beforeAll(async () => {
  server = await Server.start();
  // WebGL without a graphics unit.
  browser = await chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: ["--headless", "--no-sandbox", "--no-first-run", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] });
});
afterAll(async () => {
  await browser?.close();
  await server?.end();
  rmSync(files, { recursive: true, force: true });
});

function file(name: string, text: string): string {
  const path = join(files, name);
  writeFileSync(path, text);
  return path;
}

const data = async (page: Page, id: string): Promise<Record<string, never>> => JSON.parse((await page.locator(id).getAttribute("data-view")) ?? "{}") as never;

const KNOWN = "shop;main;serve;parse 30\nshop;main;serve;store;fsync 50\nshop;main;serve;store 5\nshop;main;wait 15\n";

/** Different colours of the landscape, but for its ground. */
function colours(page: Page): Promise<number> {
  return page.evaluate(() => {
    const canvas = document.getElementById("land") as HTMLCanvasElement;
    const gl = canvas.getContext("webgl2") as WebGL2RenderingContext;
    const bytes = new Uint8Array(canvas.width * canvas.height * 4);
    gl.readPixels(0, 0, canvas.width, canvas.height, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    const seen = new Set<number>();
    for (let i = 0; i < bytes.length; i += 4) seen.add(((bytes[i] as number) << 16) | ((bytes[i + 1] as number) << 8) | (bytes[i + 2] as number));
    return seen.size - 1;
  });
}

test("a recording is searched, zoomed and compared", async () => {
  const { page, errors } = await open(browser, `${server.url}/flame.html`);
  await page.locator("#file-now").setInputFiles(file("now.folded", KNOWN));
  await expect.poll(() => page.locator("#total").innerText()).toBe("now.folded: 100 in 7 frames, 5 deep");
  expect(await data(page, "#flame")).toMatchObject({ frames: 8, rows: 6, top: "all" });
  await page.locator("#search").fill("STORE");
  await expect.poll(() => page.locator("#total").innerText()).toContain("found in 55.0 %, 55");
  // serve has 85 of 100: the left of row two, below parse and store.
  const box = await boxOf(page.locator("#flame"));
  const row = box.height / 6;
  await page.locator("#flame").click({ position: { x: box.width * 0.3, y: row * 2.5 } });
  await expect.poll(async () => (await data(page, "#flame"))["top"]).toBe("serve");
  expect(await page.locator("#words").innerText()).toContain("serve 85 (85.0 %), in it alone 0");
  expect(await page.locator("#words small").innerText()).toBe("shop › main › serve");
  await page.locator("#whole").click();
  await expect.poll(async () => (await data(page, "#flame"))["top"]).toBe("all");
  await page.locator("#file-before").setInputFiles(file("before.folded", "shop;main;serve;parse 90\nshop;main;wait 10\n"));
  await expect.poll(() => page.locator("#total").innerText()).toContain("beside 100 before");
  await page.locator("#flame").hover({ position: { x: box.width * 0.1, y: row * 1.5 } });
  await expect.poll(() => page.locator("#words").innerText()).toContain("parse 30 (30.0 %, −60.00 points)");
  // What is no recording is refused with its line, and the picture stays.
  await page.locator("#file-now").setInputFiles(file("wrong.folded", "a;b 1\nnothing\n"));
  await expect.poll(() => page.locator("#problem").innerText()).toBe("wrong.folded: line 2: no stack and number, such as main;work 42");
  expect((await data(page, "#flame"))["frames"]).toBe(8);
  expect(errors).toEqual([]);
  await page.close();
});

test("stored stacks of a range are added up, and compared with those of another", async () => {
  const end = Math.floor(Date.now() / 1000) - 5;
  const labels = [{ comm: "shop" }, { comm: "other" }, { comm: "shop", pid: "7" }];
  const series = labels.map((more) => ({ labels: { __name__: "ogive_kernel_stacks", ...more, kind: "on_cpu" }, kind: "text" }));
  const samples = [
    { series: 0, time_ms: end * 1000, text: "shop;main;serve 30\nshop;main;wait 10\n" },
    { series: 0, time_ms: (end - 10) * 1000, text: "shop;main;serve 20\n" },
    // At the beginning of the range: of the one before it.
    { series: 0, time_ms: (end - 20) * 1000, text: "shop;main;wait 40\n" },
    { series: 1, time_ms: end * 1000, text: "other;main 1\n" },
    // Of one process of that name: a series of its own.
    { series: 2, time_ms: end * 1000, text: "shop;main 1000\n" },
  ];
  expect(await server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 5 });
  const { page, errors } = await open(browser, `${server.url}/flame.html`);
  const shop = 'ogive_kernel_stacks{comm="shop", kind="on_cpu"}';
  await page.locator("#stored-series").selectOption(shop);
  await page.locator("#stored-from").fill(String(end - 20));
  await page.locator("#stored-to").fill(String(end));
  await page.locator("#stored button").click();
  await expect.poll(() => page.locator("#total").innerText()).toBe(`${shop}: 60 in 4 frames, 3 deep`);
  await page.locator("#stored-before-from").fill(String(end - 40));
  await page.locator("#stored-before-to").fill(String(end - 20));
  await page.locator("#stored button").click();
  await expect.poll(() => page.locator("#total").innerText()).toContain("60 in 4 frames, 3 deep, beside 40 before");
  // A link shows the same.
  await page.reload();
  await expect.poll(() => page.locator("#total").innerText()).toContain("beside 40 before");
  expect(await page.locator("#stored-from").inputValue()).toBe(String(end - 20));
  await page.locator("#stored-from").fill("now-7h");
  await page.locator("#stored button").click();
  await expect.poll(() => page.locator("#problem").innerText()).toBe(`${shop}: a range has at most 6 hours`);
  expect(errors).toEqual([]);
  await page.close();
});

test("the landscape of calls is drawn by WebGL and flown through", async () => {
  const { page, errors } = await open(browser, `${server.url}/flame.html`);
  await page.locator("#file-now").setInputFiles(file("now.folded", KNOWN));
  await page.locator("#as-land").click();
  await expect.poll(async () => (await data(page, "#land"))["blocks"]).toBe(8);
  expect(await colours(page)).toBeGreaterThanOrEqual(8);
  // Forward is towards the blocks, and up is up.
  const before = (await data(page, "#land"))["place"] as unknown as number[];
  await page.keyboard.down("w");
  await expect.poll(async () => ((await data(page, "#land"))["place"] as unknown as number[])[2]).toBeLessThan((before[2] as number) - 5);
  await page.keyboard.up("w");
  const low = ((await data(page, "#land"))["place"] as unknown as number[])[1] as number;
  await page.keyboard.down("e");
  await expect.poll(async () => ((await data(page, "#land"))["place"] as unknown as number[])[1]).toBeGreaterThan(low);
  await page.keyboard.up("e");
  await page.keyboard.press("Home");
  // The block in the middle is one of the picture's: fsync, half of all, stands highest, and a click flies to it.
  const box = await boxOf(page.locator("#land"));
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.up();
  const chosen = await page.locator("#words b").innerText();
  expect(["serve", "fsync", "parse", "store"]).toContain(chosen);
  await expect.poll(async () => (await data(page, "#land"))["place"]).not.toEqual(before);
  // Seen from where it flew, it is still what is in the middle.
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2 + 1);
  await page.mouse.down();
  await page.mouse.up();
  expect(await page.locator("#words b").innerText()).toBe(chosen);
  // A search colours it; a drag turns.
  const turned = (await data(page, "#land"))["yaw"];
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2 + 80, box.y + box.height / 2, { steps: 4 });
  await page.mouse.up();
  await expect.poll(async () => (await data(page, "#land"))["yaw"]).not.toBe(turned);
  expect(errors).toEqual([]);
  await page.close();
});

function isRecordable(): boolean {
  try {
    return /^tp_btf +yes/m.test(execFileSync(binary(), ["kernel", "doctor"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  } catch {
    return false;
  }
}

const recordable = isRecordable();
if (!recordable) console.warn("skipped: this build or this user cannot sample stacks, see ogive kernel doctor");

test.skipIf(!recordable)("a recording of a real process is drawn whole", async () => {
  const busy = spawn("sh", ["-c", "while :; do find /usr -name nothing-of-this-name; done"], { stdio: "ignore" });
  try {
    let text = "";
    // A busy machine gives it little of a processor, and a cold disk keeps it waiting.
    const record = (): number => {
      text = execFileSync(binary(), ["kernel", "flame", "--comm", "find", "--seconds", "2"], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
      return callsOf(text).total;
    };
    await expect.poll(record).toBeGreaterThan(10);
    const calls = callsOf(text);
    const { page, errors } = await open(browser, `${server.url}/flame.html`);
    await page.locator("#file-now").setInputFiles(file("real.folded", text));
    await expect.poll(() => page.locator("#total").innerText()).toContain(`real.folded: ${calls.total} in ${calls.frames} frames`);
    if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/flame-graph.png") });
    await page.locator("#as-land").click();
    let frames = 0;
    const walk = (call: Call): void => (frames++, call.calls.forEach(walk));
    walk(calls.root);
    await expect.poll(async () => (await data(page, "#land"))["blocks"]).toBe(frames);
    if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/call-graph.png") });
    expect(errors).toEqual([]);
    await page.close();
  } finally {
    busy.kill("SIGKILL");
  }
});
