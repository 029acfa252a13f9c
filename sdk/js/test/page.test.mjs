// A real browser measures a page, and sends what it measured when the user leaves: to its own site, which passes it on to Ogive.

import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import http from "node:http";
import { join, normalize } from "node:path";
import test from "node:test";

import { chromium } from "playwright-core";

import { Exporter } from "../dist/esm/index.js";
import { Server, sleep } from "./server.mjs";

const skip = process.env.OGIVE_BIN ? false : "NOT TESTED against a server: OGIVE_BIN names no ogive binary";
const HERE = new URL("..", import.meta.url).pathname;

const PAGE = `<!doctype html><title>items</title><h1>Items</h1><script type="importmap">
{"imports": {"ogive": "/dist/esm/index.js", "flatbuffers": "/node_modules/flatbuffers/mjs/flatbuffers.js"}}</script>
<script type="module">
import * as ogive from "ogive";
const { Exporter, observePage } = ogive;
const exporter = new Exporter(location.origin, { intervalMs: 10_000, labels: { service: "shop" } });
observePage(exporter, { route: "/items", requestRoute: (url) => (url.pathname.startsWith("/api/items/") ? "/api/items/:id" : null) });
Object.assign(globalThis, { exporter, ogive });
for (const id of [1, 2, 3]) await (await fetch("/api/items/" + id)).text();
await (await fetch("/other")).text();
globalThis.ready = true;
</script>`;

/** Passes a batch on as a site's proxy does: with the host that the browser named. */
function pass(request, response, ogive) {
  const on = http.request(`${ogive}/v1/batch`, { method: request.method, headers: request.headers }, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  request.pipe(on);
}

/** Serves the page, the package as it is published, and an interface; `served` counts how long the page took. */
function site(ogive, served) {
  return http.createServer((request, response) => {
    const begin = process.hrtime.bigint();
    if (request.url === "/items") response.once("finish", () => served.recordNanoseconds(Number(process.hrtime.bigint() - begin)));
    const { pathname } = new URL(request.url, "http://site");
    const file = normalize(join(HERE, pathname));
    if (pathname === "/v1/batch") pass(request, response, ogive);
    else if (pathname === "/items") response.setHeader("Content-Type", "text/html").end(PAGE);
    else if (/^\/(dist|node_modules\/flatbuffers)\//.test(pathname) && file.startsWith(HERE) && existsSync(file))
      response.setHeader("Content-Type", "text/javascript").end(readFileSync(file));
    else response.end("{}");
  });
}

/** HdrHistogram's forms as the browser reads them, by its own DecompressionStream. */
async function readsHdr(tab) {
  const { records, refused } = JSON.parse(readFileSync(join(HERE, "../../vectors/hdrhistogram/read.json"), "utf8"));
  const forms = [...records, ...refused];
  const found = await tab.evaluate((given) => {
    const outcome = (error) => (error instanceof ogive.FormatError ? "refused" : String(error));
    return Promise.all(given.map(({ hdr, unit }) => ogive.decodeHdrBase64(hdr, unit).then(ogive.encodeBase64, outcome)));
  }, forms);
  assert.deepEqual(found, forms.map(({ openhistogram = "refused" }) => openhistogram));
}

test("a page's timings arrive when its user leaves, each once", { skip }, async () => {
  const server = await Server.start();
  const exporter = new Exporter(server.url, { labels: { service: "shop" } });
  const web = site(server.url, exporter.recorder("http_seconds", { route: "/items" })).listen(0, "127.0.0.1");
  await new Promise((resolve) => web.once("listening", resolve));
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  const tab = await browser.newPage();
  await tab.goto(`http://127.0.0.1:${web.address().port}/items`);
  await tab.waitForFunction(() => globalThis.ready);
  await readsHdr(tab);
  // A beacon that is sent again under its number, as by a page that came back, counts once.
  await tab.waitForFunction(() => performance.getEntriesByType("navigation")[0].loadEventEnd > 0);
  // A busy machine paints late, and what was not painted when the user leaves has no timing.
  const painted = (type) =>
    tab.evaluate(
      (of) =>
        new Promise((resolve, reject) => {
          new PerformanceObserver(() => resolve()).observe({ type: of, buffered: true });
          setTimeout(() => reject(new Error(`no ${of} within two minutes`)), 120_000);
        }),
      type,
    );
  for (const type of ["paint", "largest-contentful-paint"]) await painted(type);
  await tab.waitForFunction(() => performance.getEntriesByName("first-contentful-paint").length > 0);
  await tab.evaluate(async () => {
    await new Promise((resolve) => setTimeout(resolve)); // the observers' turn
    exporter.recorder("twice_seconds").recordMilliseconds(5);
    exporter.beacon();
    exporter.beacon();
  });
  await tab.goto("about:blank");
  const count = (of) => server.query(`sum(histogram_count(sum_over_time(${of}[10m])))`, 12);
  const arrived = async (of, expected) => {
    const until = Date.now() + 120_000;
    for (let found; (found = await count(of)) !== expected; await sleep(50))
      assert.ok(!(found > expected) && Date.now() < until, `${of}: ${found} of ${expected}`);
  };
  await arrived('fetch_seconds{route="/api/items/:id",service="shop"}', 3);
  await arrived("fetch_seconds", 3);
  await arrived("twice_seconds", 1);
  for (const timing of ["ttfb", "dom_interactive", "dom_complete", "load", "first_contentful_paint", "largest_contentful_paint"])
    await arrived(`page_seconds{route="/items",timing="${timing}"}`, 1);
  // The same in Ogive's page: two clicks lay what the server took over what the user waited for.
  await exporter.shutdown();
  await arrived('http_seconds{route="/items"}', 1);
  const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
  await page.goto(`${server.url}/?query=${encodeURIComponent('page_seconds{route="/items", timing="load"}')}`);
  await page.locator("[data-control=over]").click();
  await page.locator(`#compare [data-over='http_seconds{route="/items"}']`).click();
  // A cell ends with its interval, and is in the picture when that is over.
  const shown = (row) => page.locator(`#compare [data-row=${row}] td`).allInnerTexts();
  const until = Date.now() + 120_000;
  for (let counts; (counts = (await shown("count")).slice(0, 2)).join() !== "1,1"; await sleep(50)) assert.ok(Date.now() < until, `${counts}`);
  const [took, waited] = await shown("p50");
  assert.ok(/s$/.test(took) && /s$/.test(waited) && took !== waited, `${took} and ${waited}`);
  await browser.close();
  web.closeAllConnections();
  web.close();
  await server.stop();
});
