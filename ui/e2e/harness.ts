/** A real `ogive serve` or `ogive broker` on a free port with its own data directory, and a real Chromium. */

import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo, type Server as Listener, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium, type Browser, type BrowserContextOptions, type Locator, type Page } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import type { Heatmap } from "../src/api.ts";
import { ValueAxis, type Domain } from "../src/axis.ts";
import { palette, type PaletteName, type Rgb, type Theme } from "../src/colour.ts";

const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/** The binary under test: `OGIVE_BIN`, or what cargo built, the release first. */
export function binary(): string {
  const root = resolve(import.meta.dirname, "../..");
  const places = [process.env["OGIVE_BIN"], join(root, "target/release/ogive"), join(root, "target/debug/ogive")];
  const found = places.find((place) => place !== undefined && place !== "" && existsSync(place));
  if (found === undefined) throw new Error("no ogive binary: build it with `cargo build --release -p ogive` or set OGIVE_BIN");
  return found;
}

export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((done) => probe.listen(0, "127.0.0.1", done));
  const { port } = probe.address() as AddressInfo;
  await new Promise((done) => probe.close(done));
  return port;
}

export class Server {
  private child: ChildProcess | null = null;
  private output = "";
  readonly data = mkdtempSync(join(tmpdir(), "ogive-e2e-"));

  private constructor(
    readonly port: number,
    private readonly command: (server: Server) => string[],
  ) {}

  static async start(command = (server: Server): string[] => ["serve", "--data", server.data, "--listen", `127.0.0.1:${server.port}`]): Promise<Server> {
    for (let tries = 1; ; tries++) {
      const server = new Server(await freePort(), command);
      try {
        await server.run();
        return server;
      } catch (error) {
        await server.end();
        // Somebody else may have got the port meanwhile.
        if (tries === 5 || !String(error).includes("is in use")) throw error;
      }
    }
  }

  /** An `ogive broker` with a destination of each name at the address beside it, and more of its file. */
  static broker(destinations: Record<string, string>, broker = "edge-1", more = ""): Promise<Server> {
    return Server.start((server) => {
      const file = join(server.data, "broker.toml");
      const spool = `[spool]\ndirectory = "${join(server.data, "spool")}"\n`;
      const each = Object.entries(destinations).map(([name, url]) => `[[destination]]\nname = "${name}"\nendpoints = ["${url}"]\n`);
      writeFileSync(file, [`name = "${broker}"\nlisten = ["127.0.0.1:${server.port}"]\n`, spool, ...each, more].join("\n"));
      return ["broker", "-c", file];
    });
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** The process, while it runs. */
  get pid(): number {
    return this.child?.pid as number;
  }

  /** Starts the process (again, on the same port and data) and waits until it says that it is ready. */
  async run(): Promise<void> {
    const child = spawn(binary(), this.command(this), { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text: Buffer) => (this.output += text.toString()));
    this.child = child;
    for (let tries = 0; tries < 600; tries++) {
      if (child.exitCode !== null) throw new Error(`ogive ended with ${child.exitCode}: ${this.output}`);
      const ready = await fetch(`${this.url}/-/ready`).then((answer) => answer.ok, () => false);
      if (ready) return;
      await new Promise((done) => setTimeout(done, 100));
    }
    throw new Error(`ogive is not ready after a minute: ${this.output}`);
  }

  async stop(): Promise<void> {
    const { child } = this;
    if (child === null || child.exitCode !== null) return;
    const ended = new Promise((done) => child.once("exit", done));
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), 30_000);
    await ended;
    clearTimeout(late);
    this.child = null;
  }

  async end(): Promise<void> {
    await this.stop();
    rmSync(this.data, { recursive: true, force: true });
  }

  async json<T>(path: string, params: Record<string, string> = {}): Promise<T> {
    const answer = await fetch(`${this.url}/${path}?${new URLSearchParams(params)}`);
    return (await answer.json()) as T;
  }

  async heatmap(query: string, view: View): Promise<Heatmap> {
    const params = { query, start: String(view.first * view.step), end: String(view.last * view.step), step: String(view.step), quantiles: "0.5,0.9,0.99,0.999" };
    const body = await this.json<{ status: string; data: Heatmap; error?: string }>("v1/heatmap", params);
    if (body.status !== "success") throw new Error(`/v1/heatmap: ${body.error}`);
    return body.data;
  }

  async push(body: unknown): Promise<unknown> {
    const answer = await fetch(`${this.url}/v1/batch`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`/v1/batch answered ${answer.status}: ${text}`);
    return JSON.parse(text);
  }
}

/** A connection to the server that a test can cut while the server goes on measuring. */
export class Cable {
  private readonly sockets = new Set<Socket>();
  private listener: Listener | null = null;
  private port = 0;

  constructor(private readonly to: number) {}

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  async plug(): Promise<void> {
    const listener = createServer((near) => {
      const far = connect(this.to, "127.0.0.1");
      for (const socket of [near, far]) {
        this.sockets.add(socket);
        socket.on("error", () => socket.destroy());
        socket.on("close", () => this.sockets.delete(socket));
      }
      near.pipe(far).pipe(near);
    });
    this.listener = listener;
    await new Promise<void>((done) => listener.listen(this.port, "127.0.0.1", done));
    this.port = (listener.address() as AddressInfo).port;
  }

  async cut(): Promise<void> {
    const closed = new Promise((done) => this.listener?.close(done));
    for (const socket of this.sockets) socket.destroy();
    await closed;
  }
}

export function launch(): Promise<Browser> {
  return chromium.launch({ executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium", args: FLAGS });
}

/** What the heat map says about its geometry, in CSS pixels of its canvas. */
export interface View {
  left: number;
  top: number;
  plotWidth: number;
  plotHeight: number;
  ratio: number;
  step: number;
  first: number;
  last: number;
  domain: Domain;
  max: number;
  columns: number;
  total: number;
  /** Slots that have slow traces. */
  marks: number[];
  /** Runs of slots that may still get data: the first and the last of each. */
  pending: [number, number][];
}

const KINDS: Record<string, string> = { html: "text/html", js: "text/javascript", css: "text/css", svg: "image/svg+xml" };

/** Answers for the page with what `npm run build` made last, so that a change of the page needs no build of the binary. */
async function fromDist(page: Page): Promise<void> {
  const dist = resolve(import.meta.dirname, "../dist");
  await page.route("**/*", async (route) => {
    const { pathname } = new URL(route.request().url());
    const file = join(dist, pathname === "/" ? "index.html" : pathname);
    const kind = KINDS[file.split(".").at(-1) as string];
    if (kind === undefined || !existsSync(file)) return route.fallback();
    await route.fulfill({ path: file, contentType: kind });
  });
}

/** Opens a page whose program runs, and fails the test on any error that the page throws. */
export async function open(browser: Browser, url: string, theme: Theme = "dark", height = 900, width = 1440, more: BrowserContextOptions = {}): Promise<{ page: Page; errors: string[] }> {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: theme, ...more });
  page.setDefaultTimeout(90_000);
  const errors: string[] = [];
  page.on("pageerror", (error) => errors.push(error.stack ?? error.message));
  page.on("console", (message) => {
    // Lost connections and refused expressions are logged by the browser itself.
    if (message.type() === "error" && !/Failed to load resource|ERR_|net::/.test(message.text())) errors.push(message.text());
  });
  if (process.env["OGIVE_DIST"] !== undefined) await fromDist(page);
  await page.goto(url);
  await page.locator("html[data-starting]").waitFor({ state: "detached" });
  return { page, errors };
}

export async function view(page: Page): Promise<View> {
  return JSON.parse((await page.locator("#cells").getAttribute("data-view")) ?? "null") as View;
}

/** Where the picture is on the canvas. */
const place = ({ left, top, plotWidth, plotHeight, ratio }: View): string => [left, top, plotWidth, plotHeight, ratio].join();

/**
 * Waits for a picture that fulfils `wanted` and holds its place: the first data bring legend and figures, which take room
 * from the canvas a moment later, and pixels read by the place before would be others.
 */
export async function viewWhen(page: Page, wanted: (now: View) => boolean, limit = 60_000): Promise<View> {
  const until = Date.now() + limit;
  let before = "";
  for (;;) {
    const now = await view(page);
    if (now !== null && wanted(now) && place(now) === before) return now;
    before = now === null ? "" : place(now);
    if (Date.now() > until) throw new Error(`the picture did not come to what was wanted within ${limit} ms; it is ${JSON.stringify(now)}`);
    await page.waitForTimeout(100);
  }
}

export type Box = { x: number; y: number; width: number; height: number };

/** Where an element is on the page, in CSS pixels: asked until it has a place, as it has none while the page draws it anew, and stands still. */
export async function boxOf(element: Locator): Promise<Box> {
  let box: Box | null = null;
  await expect
    .poll(async () => {
      const before = box;
      box = await element.boundingBox();
      return box !== null && JSON.stringify(box) === JSON.stringify(before);
    })
    .toBe(true);
  return box as unknown as Box;
}

export type Point = [number, number];

/** Colours of the heat map's canvas at points in CSS pixels. */
export function pixels(page: Page, points: Point[]): Promise<Rgb[]> {
  return page.evaluate((wanted) => {
    const canvas = document.getElementById("cells") as HTMLCanvasElement;
    const ratio = canvas.width / canvas.clientWidth;
    const context = canvas.getContext("2d") as CanvasRenderingContext2D;
    const { data } = context.getImageData(0, 0, canvas.width, canvas.height);
    return wanted.map(([x, y]) => {
      const at = (Math.floor(y * ratio) * canvas.width + Math.floor(x * ratio)) * 4;
      return [data[at], data[at + 1], data[at + 2]] as [number, number, number];
    });
  }, points);
}

/** Where a column and a value are on the canvas, worked out apart from the page. */
export class Places {
  readonly axis: ValueAxis;
  readonly width: number;

  constructor(readonly view: View) {
    this.axis = new ValueAxis(view.domain, Math.round(view.plotHeight * view.ratio), view.ratio);
    this.width = view.plotWidth / (view.last - view.first + 1);
  }

  /** A point inside of a cell, `fx` and `fy` parts of the way from its top left corner. */
  cell(slot: number, lo: number, hi: number, fx: number, fy: number): Point {
    const [top, bottom] = this.span(lo, hi);
    return [this.view.left + (slot - this.view.first + fx) * this.width, top + (bottom - top) * fy];
  }

  span(lo: number, hi: number): [number, number] {
    const [from, to] = this.axis.span(lo, hi);
    return [this.view.top + from / this.view.ratio, this.view.top + to / this.view.ratio];
  }
}

/** Levels of a map that look like this pixel: -1 for none. */
export function levelOf(colours: readonly Rgb[], pixel: Rgb): number {
  return colours.findIndex((colour) => colour.every((part, i) => part === pixel[i]));
}

export const mapOf = (name: PaletteName, theme: Theme): Rgb[] => palette(name, theme);

/** What the tests of a file share. */
export type Shared = { server: Server; browser: Browser };

/** A browser and a server that stores nothing yet: there from before the first test of a file until behind its last. */
export function shared(): Shared {
  const all: Partial<Shared> = {};
  beforeAll(async () => {
    all.browser = await launch();
    all.server = await Server.start();
  });
  afterAll(async () => {
    await all.browser?.close();
    await all.server?.end();
  });
  return all as Shared;
}
