// A program with prom-client, scraped at PORT: each line that it hears is COUNT observations more.
// scraped.cjs PORT COUNT
const http = require("http");
const readline = require("readline");
const { Counter, Gauge, Histogram, Summary, register } = require("prom-client");

const [port, count] = process.argv.slice(2).map(Number);
const calls = new Counter({ name: "js_calls_total", help: "Calls.", labelNames: ["route"] });
const level = new Gauge({ name: "js_level", help: "Level." });
const took = new Histogram({ name: "js_took_seconds", help: "How long.", buckets: [0.1, 0.5, 1] });
const size = new Summary({ name: "js_size_bytes", help: "How large." });

const server = http.createServer(async (_, answer) => {
  answer.setHeader("content-type", register.contentType);
  answer.end(await register.metrics());
});
server.listen(port, "127.0.0.1", () => console.log("ready"));
const lines = readline.createInterface({ input: process.stdin });
lines.on("line", () => {
  for (let at = 0; at < count; at++) {
    calls.inc({ route: '/"x"\\' });
    took.observe((at % 10) / 10);
    size.observe(at);
    level.set(at);
  }
  console.log("done");
});
lines.on("close", () => process.exit(0));
