// The exporter against a real server, which is killed in between.

import assert from "node:assert/strict";
import test from "node:test";

import express from "express";

import { Exporter, middleware } from "../dist/esm/index.js";
import { Server, sleep } from "./server.mjs";

const skip = process.env.OGIVE_BIN ? false : "NOT TESTED against a server: OGIVE_BIN names no ogive binary";

test("every sample is stored once across a kill", { skip }, async () => {
  const server = await Server.start();
  const exporter = new Exporter(server.url, { labels: { service: "orders" }, intervalMs: 100 });
  const logins = exporter.recorder("login_seconds", { route: "/login" });
  assert.throws(() => exporter.recorder("login_seconds", { route: "/login" }), RangeError);
  exporter.gauge("queue_length", () => 17);
  const record = async (from, to) => {
    for (let at = from; at <= to; at += 1) {
      logins.recordNanoseconds(at);
      if (at % 1000 === 0) await sleep(1);
    }
  };
  await record(1, 20_000);
  while (exporter.status().acknowledged < 2) await sleep(5);
  await server.kill();
  await record(20_001, 60_000);
  await server.run();
  assert.equal(await exporter.shutdown(120_000), 0);
  const status = exporter.status();
  assert.deepEqual([status.dropped, status.waiting, status.taken], [{}, 0, status.acknowledged]);
  assert.equal(await server.query('histogram_count(sum_over_time(login_seconds{service="orders",route="/login"}[10m]))'), 60_000);
  const sum = await server.query("histogram_sum(sum_over_time(login_seconds[10m]))");
  assert.ok(Math.abs(sum - (60_000 * 60_001) / 2 / 1e9) < 1e-9, `the sum is ${sum}`);
  assert.equal(await server.query("queue_length"), 17);
  await server.stop();
});

test("what waits is bounded and counted", async () => {
  let heard = 0;
  const exporter = new Exporter("http://127.0.0.1:1", { intervalMs: 100, keepBytes: 2000, onError: () => (heard += 1) });
  exporter.counter("served_total", () => 1);
  while (heard === 0 || exporter.status().dropped.full === undefined) await sleep(10);
  assert.ok((await exporter.shutdown(0)) > 0);
  const { taken, dropped, waitingBytes } = exporter.status();
  assert.deepEqual([taken, waitingBytes, heard], [dropped.full + dropped.shutdown, 0, 1]);
});

test("Express requests are measured by their pattern", { skip }, async () => {
  const server = await Server.start();
  const exporter = new Exporter(server.url, { intervalMs: 100 });
  const app = express();
  app.use(middleware(exporter, "http_seconds"));
  app.get("/users/:id", (request, response) => response.status(request.params.id === "7" ? 410 : 200).end());
  const site = app.listen(0);
  const { port } = site.address();
  for (const path of ["/users/1", "/users/2", "/users/7", "/elsewhere"]) await (await fetch(`http://127.0.0.1:${port}${path}`)).text();
  site.closeAllConnections();
  site.close();
  assert.equal(await exporter.shutdown(120_000), 0);
  const count = (labels) => server.query(`sum(histogram_count(sum_over_time(http_seconds{${labels}}[10m])))`);
  assert.equal(await count('route="/users/:id",method="GET",code="2xx"'), 2);
  assert.equal(await count('route="/users/:id",code="4xx"'), 1);
  assert.equal(await count('route="other",code="4xx"'), 1);
  await server.stop();
});
