// What the bridges of frameworks and runtimes count, with the real ones and a real server.

import assert from "node:assert/strict";
import http from "node:http";
import { setFlagsFromString } from "node:v8";
import test from "node:test";
import { runInNewContext } from "node:vm";

import fastify from "fastify";

import { Exporter, fastifyPlugin, observeNode } from "../dist/esm/index.js";
import { Server } from "./server.mjs";

const skip = process.env.OGIVE_BIN ? false : "NOT TESTED against a server: OGIVE_BIN names no ogive binary";

test("Fastify requests are measured by their pattern", { skip }, async () => {
  const server = await Server.start();
  const exporter = new Exporter(server.url, { intervalMs: 100 });
  const app = fastify();
  await app.register(fastifyPlugin(exporter, "http_seconds"));
  app.get("/users/:id", async (request, reply) => reply.code(request.params.id === "7" ? 410 : 200).send("x"));
  // Of another plugin, which would not have the hook if that were encapsulated.
  await app.register(async (inner) => inner.post("/fails", async () => { throw new Error("no"); }), { prefix: "/inner" });
  const url = await app.listen({ port: 0, host: "127.0.0.1" });
  for (const path of ["/users/1", "/users/2", "/users/7", "/elsewhere"]) await (await fetch(url + path)).text();
  await (await fetch(`${url}/inner/fails`, { method: "POST" })).text();
  await app.close();
  assert.equal(await exporter.shutdown(120_000), 0);
  const count = (labels) => server.query(`sum(histogram_count(sum_over_time(http_seconds{${labels}}[10m])))`);
  assert.equal(await count('route="/users/:id",method="GET",code="2xx"'), 2);
  assert.equal(await count('route="/users/:id",code="4xx"'), 1);
  assert.equal(await count('route="/inner/fails",method="POST",code="5xx"'), 1);
  assert.equal(await count('route="other",code="4xx"'), 1);
  assert.equal(await count(""), 5);
  await server.stop();
});

test("what node:perf_hooks reports is counted", { skip }, async () => {
  const server = await Server.start();
  const exporter = new Exporter(server.url, { intervalMs: 100 });
  const stop = observeNode(exporter, { measures: ["resize"] });
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  performance.mark("begin");
  for (let at = 0; at < 3; at += 1) performance.measure("resize", "begin");
  performance.measure("of no interest", "begin");
  const site = http.createServer((_, response) => response.end("x")).listen(0, "127.0.0.1");
  await new Promise((resolve) => site.once("listening", resolve));
  const got = () => new Promise((resolve) => http.get(site.address(), (response) => response.resume().on("end", resolve)));
  for (let at = 0; at < 4; at += 1) await got();
  site.close();
  // Observers are called in a turn of their own.
  const seen = async (name) => server.query(`sum(histogram_count(sum_over_time(${name}[10m])))`);
  for (const [name, count] of [["http_client_seconds", 4], ["http_server_seconds", 4], ["measure_seconds", 3]]) {
    let found = 0;
    while ((found = await seen(name)) !== count) {
      assert.ok(!(found > count), `${name}: ${found} of ${count}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }
  assert.ok((await seen('gc_seconds{kind="major"}')) >= 1);
  stop();
  performance.measure("resize", "begin");
  assert.equal(await exporter.shutdown(120_000), 0);
  assert.equal(await seen("measure_seconds"), 3);
  const utilization = await server.query("event_loop_utilization");
  assert.ok(utilization >= 0 && utilization <= 1, `${utilization}`);
  await server.stop();
});
