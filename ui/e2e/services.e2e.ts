/** A real nginx, its backend and a real redis, observed on the wire: who talks to whom, as the page shows it. Needs CAP_NET_RAW. */

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { binary, boxOf, freePort, launch, open, Server } from "./harness.ts";

/** Hosts of their own on loopback. */
const [WEB, BACKEND, CACHE] = ["127.0.81.1", "127.0.81.2", "127.0.81.3"] as const;
const CLIENT = "127.0.81.9";

const directory = mkdtempSync(join(tmpdir(), "ogive-e2e-services-"));
const programs: ChildProcess[] = [];
let server: Server;
let browser: Browser;
let web = 0;
let backend = 0;
let cache = 0;

function run(command: string, args: string[]): ChildProcess {
  const child = spawn(command, args, { cwd: directory, stdio: ["ignore", "ignore", "pipe"] });
  child.on("error", (error) => console.error(`${command}: ${error.message}: run scripts/need`));
  programs.push(child);
  return child;
}

async function listens(host: string, port: number): Promise<void> {
  const isThere = (): Promise<boolean> => new Promise((done) => {
    const socket = connect(port, host, () => {
      socket.destroy();
      done(true);
    }).on("error", () => done(false));
  });
  for (let tries = 0; !(await isThere()); tries++) {
    if (tries === 600) throw new Error(`nobody listens on ${host}:${port} after a minute: run scripts/need nginx redis-server`);
    await new Promise((done) => setTimeout(done, 100));
  }
}

/** One answer to one request, from the client's address. */
function ask(host: string, port: number, text: string, isWhole: (answer: string) => boolean, from = CLIENT): Promise<string> {
  return new Promise((done, failed) => {
    let answer = "";
    const socket = connect({ host, port, localAddress: from }, () => socket.write(text));
    socket.on("data", (more) => {
      answer += more.toString();
      if (!isWhole(answer)) return;
      socket.end();
      done(answer);
    });
    socket.on("error", failed);
  });
}

const get = (path: string): Promise<string> => ask(WEB, web, `GET ${path} HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n`, (answer) => answer.includes("\r\n\r\n"));

beforeAll(async () => {
  browser = await launch();
  server = await Server.start();
  [web, backend, cache] = [await freePort(), await freePort(), await freePort()];
  const proxy = `location / { proxy_pass http://${BACKEND}:${backend}; proxy_bind ${WEB}; proxy_http_version 1.1; proxy_set_header Connection ""; }`;
  writeFileSync(join(directory, "nginx.conf"), `daemon off; master_process off; pid pid; error_log error; events {} http { access_log off;

    server { listen ${WEB}:${web}; ${proxy} }
    server { listen ${BACKEND}:${backend}; location / { return 200 ok; } location /bad { return 503 no; } } }`);
  run("nginx", ["-p", directory, "-c", join(directory, "nginx.conf")]);
  run("redis-server", ["--save", "", "--bind", CACHE, "--port", String(cache), "--protected-mode", "no"]);
  await Promise.all([listens(WEB, web), listens(BACKEND, backend), listens(CACHE, cache)]);
});

afterAll(async () => {
  await browser?.close();
  for (const program of programs) program.kill("SIGKILL");
  await server?.end();
  rmSync(directory, { recursive: true, force: true });
});

test("without an observer the page says how to begin", async () => {
  const { page, errors } = await open(browser, `${server.url}/services.html`);
  await expect.poll(() => page.locator("#none pre").first().innerText()).toBe(`ogive wire -i eth0 --to ${server.url}`);
  expect(await page.locator("#map").isVisible()).toBe(false);
  expect(errors).toEqual([]);
  await page.close();
});

test("services that talk on the wire are on the map, an edge opens its heat map, findings are listed", async () => {
  const ports = [web, backend, cache].flatMap((port) => ["--only", String(port)]);
  let said = "";
  const observer = run(binary(), ["wire", "-i", "lo", ...ports, "--to", server.url, "--label", "host=e2e"]);
  observer.stderr?.on("data", (more: Buffer) => (said += more.toString()));
  // It observes once its own series come.
  const count = async (query: string): Promise<number> => {
    const answer = await server.json<{ data: { result: { value: [number, string] }[] } }>("api/v1/query", { query });
    return Number(answer.data.result[0]?.value[1] ?? 0);
  };
  await expect.poll(() => (observer.exitCode === null ? count("count(ogive_wire_packets_total)") : said), { timeout: 60_000 }).toBe(1);
  // Twelve connections of a request each are a finding.
  for (let round = 0; round < 60; round++) await get(round % 4 === 0 ? "/bad" : "/item/7");
  for (let round = 0; round < 200; round++) await ask(CACHE, cache, "*2\r\n$4\r\nINCR\r\n$1\r\nk\r\n", (answer) => answer.endsWith("\r\n"), WEB);
  await expect.poll(() => count("round(histogram_count(sum(increase(ogive_wire_edge_seconds[5m]))))"), { timeout: 60_000 }).toBe(320);

  const { page, errors } = await open(browser, `${server.url}/services.html`);
  const edge = (client: string, host: string, port: number) => page.locator(`.wire-edge[data-client="${client}"][data-service="${host}:${port}"]`);
  for (const one of [edge(CLIENT, WEB, web), edge(WEB, BACKEND, backend), edge(WEB, CACHE, cache)]) await expect.poll(() => one.count(), { timeout: 60_000 }).toBe(1);
  // A quarter of the requests fail, at the backend as at the front.
  await expect.poll(() => edge(CLIENT, WEB, web).locator("text").textContent(), { timeout: 60_000 }).toMatch(/\/s · p99 [\d.]+ (µs|ms|s) · 25 % errors$/);
  expect(await edge(CLIENT, WEB, web).getAttribute("class")).toContain("bad");
  expect(await edge(WEB, CACHE, cache).getAttribute("class")).not.toContain("bad");
  // The cache stands right of the web server, which stands right of its client.
  const left = async (text: string): Promise<number> => (await boxOf(page.locator(".wire-place .host", { hasText: text }))).x;
  expect(await left(CLIENT)).toBeLessThan(await left(WEB));
  expect(await left(WEB)).toBeLessThan(await left(CACHE));
  // The table has the same edges; findings link to what they mean.
  expect(await page.locator("#edges tbody tr").count()).toBe(3);
  const finding = page.locator('#findings tr[data-kind="connection_per_request"]').first();
  await expect.poll(() => finding.locator("a").getAttribute("href"), { timeout: 60_000 }).toBe("docs/wire.html#connection_per_request");
  if (process.env["OGIVE_SCREENSHOT"] === "1") await page.screenshot({ path: resolve(import.meta.dirname, "../../docs/images/services.png") });

  await edge(WEB, CACHE, cache).locator("path").last().click({ force: true });
  await page.waitForURL(/query=ogive_wire_edge_seconds/);
  expect(new URL(page.url()).searchParams.get("query")).toBe(`ogive_wire_edge_seconds{client="${WEB}", service="${CACHE}:${cache}", protocol="redis", host="e2e"}`);
  await expect.poll(() => page.locator("#cells").getAttribute("data-view").then((text) => (JSON.parse(text ?? "null") as { total: number } | null)?.total)).toBe(200);

  // Ended, it has sent what it measured; the kernel dropped nothing.
  observer.kill("SIGTERM");
  await expect.poll(() => observer.exitCode).toBe(0);
  expect(errors).toEqual([]);
});
