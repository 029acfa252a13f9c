/** The operator's page: every figure beside the API's, and what was sent. */

import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { binary, freePort, open, Server, shared } from "./harness.ts";

const NAME = "e2e_operated";
const all = shared();
const source = crypto.randomUUID();

beforeAll(async () => {
  const now = Date.now();
  const series = Array.from({ length: 40 }, (_, i) => ({ labels: { __name__: NAME, host: `h${i}` }, kind: "float" }));
  const samples = series.map((_, i) => ({ series: i, time_ms: now - 1_000, float: i }));
  // One sample is of a series that is not there: it is rejected.
  const verdict = await all.server.push({ source, sequence: 1, series, samples: [...samples, { series: 99, time_ms: now, float: 1 }] });
  expect(verdict).toMatchObject({ accepted: 40 });
  for (let i = 0; i < 3; i++) await all.server.json("api/v1/query", { query: `sum(${NAME})` });
});

test("senders, expressions, cardinality and disks are those of the API", async () => {
  const { page, errors } = await open(all.browser, `${all.server.url}/operate.html`);
  // The server's own counters are stored each second, so the ledger comes a moment later.
  const batch = page.locator("#senders tr", { hasText: "batch" });
  await expect.poll(() => batch.locator("td").allInnerTexts()).toEqual(["41", "40", "0", "1", "0", "series_unknown 1"]);
  // The same of each sender, as the API has it.
  const { data: ledger } = await all.server.json<{ data: { senders: { source?: string; sender: string; protocol: string; received: number; rejected: Record<string, number> }[] } }>("v1/senders");
  const mine = ledger.senders.find((one) => one.source === source);
  expect(mine).toMatchObject({ sender: "127.0.0.1", protocol: "batch", received: 41, rejected: { series_unknown: 1 } });
  const sender = page.locator("#each-sender tr", { hasText: source });
  await expect.poll(() => sender.locator("td").allInnerTexts().then((texts) => texts.slice(0, 8))).toEqual(["batch", "default", "41", "40", "0", "1", "series_unknown 1", "0"]);
  const query = page.locator("#queries tr", { hasText: `sum(${NAME})` });
  await expect.poll(() => query.locator("td").nth(1).innerText()).toBe("3");
  const { data } = await all.server.json<{ data: { queries: { query: string; times: number }[] } }>("v1/queries");
  expect(data.queries.find((one) => one.query === `sum(${NAME})`)?.times).toBe(3);
  const name = page.locator("#cardinality tr", { hasText: NAME });
  await expect.poll(() => name.first().locator("td").innerText()).toBe("40");
  await expect.poll(() => page.locator("#disks tbody th").innerText()).toBe(all.server.data);
  expect(await page.locator("#targets").innerText()).toContain("Nothing is scraped");
  await page.locator("#grew-button").click();
  const grew = page.locator("#grew tr", { hasText: NAME }).first();
  await expect.poll(() => grew.locator("td").allInnerTexts()).toEqual(["0", "40", "+40, new"]);
  const { data: cardinality } = await all.server.json<{ data: { grew: { metrics: unknown[] }; tenants: { name: string }[] } }>("v1/cardinality", { limit: "100" });
  expect(cardinality.grew.metrics).toContainEqual({ name: NAME, now: 40, before: 0 });
  expect(await page.locator("#grew div", { has: page.getByRole("heading", { name: "Series by tenant" }) }).last().locator("tbody th").allInnerTexts()).toEqual(cardinality.tenants.map(({ name }) => name));
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/operate.png") });
  // An expression is looked at alone.
  await query.locator("a").click();
  await expect.poll(() => page.locator("#query").inputValue()).toBe(`sum(${NAME})`);
  expect(errors).toEqual([]);
  await page.close();
});

// Of a node over a real cluster with a node that was killed: `make run-cluster`, then `scripts/cassandra target/cassandra kill 3`.
const cluster = process.env["OGIVE_CLUSTER"];
test.skipIf(cluster === undefined)("a cluster shows which node does not answer", async () => {
  const { page, errors } = await open(all.browser, `${cluster}/operate.html`);
  const nodes = page.locator("#cluster tr", { hasText: "127.0.0.3:" });
  await expect.poll(() => nodes.locator(".condition").innerText(), { timeout: 60_000 }).toBe("not connected");
  if (process.env["OGIVE_SCREENSHOT"] !== undefined) {
    await page.locator("#cluster").evaluate((node) => node.scrollIntoView());
    await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/cluster.png") });
  }
  expect(errors).toEqual([]);
  await page.close();
});

const WEEK_MS = 7 * 86_400_000;

test("what one thing costs of another is what ogive ops counts", async () => {
  const time = Date.now() - 60_000;
  const [requests, statements] = ["e2e_request_seconds", "e2e_sql_seconds"];
  const series = [requests, statements].map((name) => ({ labels: { __name__: name }, kind: "histogram", temporality: "delta", unit: "s", width_ms: 1000 }));
  const cell = (at: number, time_ms: number, count: number): object => ({ series: at, time_ms, histogram: { bins: { "1.2e-3": count } } });
  const samples = [cell(0, time - WEEK_MS, 100), cell(1, time - WEEK_MS, 200), cell(0, time, 100), cell(1, time, 320)];
  expect(await all.server.push({ source: crypto.randomUUID(), sequence: 1, series, samples })).toMatchObject({ accepted: 4 });
  const ops = (...args: string[]): { rows: { name: string; each: number; each_before: number; change_percent: number }[] } => JSON.parse(execFileSync(binary(), ["ops", "--json", "--server", all.server.url, ...args], { encoding: "utf8" })) as never;
  const { page, errors } = await open(all.browser, `${all.server.url}/operate.html`);
  // Without a wish: what Ogive does for each request, in the rows and the order of the command.
  const rows = page.locator("#ops tbody tr");
  await expect.poll(() => rows.locator("th").allInnerTexts()).toEqual(ops().rows.map(({ name }) => name));
  await page.locator("#ops-per").fill(requests);
  await page.locator("#ops-of").fill(statements);
  await page.locator("#ops-form button").click();
  await expect.poll(() => rows.first().locator("th, td").allInnerTexts()).toEqual([statements, "3.2", "2", "+60 %"]);
  const [row] = ops("--per", requests, statements).rows;
  expect(row).toMatchObject({ name: statements, each: 3.2, each_before: 2, change_percent: expect.closeTo(60) as number });
  await page.locator("#ops-per").fill("e2e_nothing");
  await page.locator("#ops-form button").click();
  await expect.poll(() => page.locator("#ops").innerText()).toContain("Nothing to divide by");
  await page.locator("#ops-per").fill("sum(");
  await page.locator("#ops-form button").click();
  await expect.poll(() => page.locator("#ops").innerText()).toContain("parse error");
  expect(errors).toEqual([]);
  await page.close();
});

test("checks, queues, gaps and the configuration are those of the server", async () => {
  const listener = createServer();
  await new Promise<void>((done) => listener.listen(0, "127.0.0.1", done));
  const there = `127.0.0.1:${(listener.address() as AddressInfo).port}`;
  const nowhere = `127.0.0.1:${await freePort()}`;
  const server = await Server.start((one) => {
    const file = join(one.data, "checks.toml");
    const check = (name: string, target: string): string => `[[check]]\nname = "${name}"\nkind = "tcp"\ntarget = "${target}"\nperiod = "1s"\n`;
    writeFileSync(file, check("answers", there) + check("silent", nowhere));
    return ["serve", "--data", join(one.data, "store"), "--checks", file, "--httptrap", "c6e1ee83-7e9d-4d2b-a6c9-7b7a5f0c2d11:a-very-secret-word", "--listen", `127.0.0.1:${one.port}`];
  });
  try {
    const gap = { labels: { __name__: "ogive_gap_samples", broker: "edge-1", destination: "far", reason: "space" }, kind: "float", temporality: "delta", width_ms: 1000 };
    expect(await server.push({ source: crypto.randomUUID(), sequence: 1, series: [gap], samples: [{ series: 0, time_ms: Date.now() - 30_000, float: 70 }] })).toMatchObject({ accepted: 1 });
    const { page, errors } = await open(all.browser, `${server.url}/operate.html`);
    const checks = page.locator("#checks tbody tr");
    await expect.poll(() => checks.locator("th").allInnerTexts()).toEqual(["silent", "answers"]);
    await expect.poll(() => checks.locator(".condition").allInnerTexts()).toEqual(["down", "up"]);
    await expect.poll(() => checks.first().locator("td").last().innerText()).toContain("refused");
    expect(await checks.last().locator("td").last().innerText()).toBe("–");
    expect(await checks.first().locator("td").nth(1).innerText()).toBe(nowhere);
    await expect.poll(() => page.locator("#gaps tbody tr").first().locator("th, td").allInnerTexts()).toEqual(["edge-1", "far", "space", "70"]);
    await expect.poll(() => page.locator("#queues tbody th").allInnerTexts()).toEqual(["Batches", "Deletions", "Findings of scrubs", "Retention"]);
    // Options that are set, with their values but for secrets; then all of them.
    const { data: flags } = await server.json<{ data: Record<string, string> }>("api/v1/status/flags");
    const options = page.locator("#configuration tbody tr");
    await expect.poll(() => options.locator("th").allInnerTexts()).toEqual(Object.entries(flags).filter(([, value]) => value !== "" && value !== "false").map(([name]) => `--${name}`).sort());
    expect(await options.filter({ hasText: "--checks" }).locator("td").innerText()).toBe(flags["checks"]);
    expect(await page.content()).not.toContain("a-very-secret-word");
    await page.locator("#all-options").click();
    await expect.poll(() => options.count()).toBe(Object.keys(flags).length);
    await page.locator("#logins-button").click();
    await expect.poll(() => page.locator("#logins").innerText()).toContain("Nobody has to log in");
    if (process.env["OGIVE_SCREENSHOT"] !== undefined) {
      await page.locator("#all-options").click();
      await page.locator("#targets").evaluate((node) => node.scrollIntoView());
      await page.screenshot({ path: join(import.meta.dirname, "../../docs/images/operate-server.png") });
    }
    expect(errors).toEqual([]);
    await page.close();
  } finally {
    await server.end();
    listener.close();
  }
});

test("users and tokens have names and rights, and no secrets", async () => {
  const token = (name: string, allow: string, ...more: string[]): { secret: string; entry: string } => {
    const said = execFileSync(binary(), ["token", "new", "--name", name, "--allow", allow, ...more], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    const [secret, entry] = [said.split("\n")[0] as string, said.split("tokens:\n")[1] as string];
    return { secret, entry };
  };
  const [admin, sender] = [token("operator", "read,admin"), token("sender-1", "write", "--tenant", "team-a", "--expires", "90d")];
  const entries = [admin, sender].map(({ entry }) => entry);
  const server = await Server.start((one) => {
    const file = join(one.data, "web.yml");
    writeFileSync(file, `tokens:\n${entries.join("")}`);
    return ["serve", "--data", join(one.data, "store"), "--web-config", file, "--listen", `127.0.0.1:${one.port}`];
  });
  try {
    const page = await all.browser.newPage({ extraHTTPHeaders: { authorization: `Bearer ${admin.secret}` } });
    await page.goto(`${server.url}/operate.html`);
    await page.locator("#logins-button").click();
    const rows = page.locator("#logins tbody tr");
    await expect.poll(() => rows.locator("th").allInnerTexts()).toEqual(["operator", "sender-1"]);
    expect((await rows.first().locator("td").allInnerTexts()).join()).toBe("token,read, admin,any,never");
    expect((await rows.last().locator("td").allInnerTexts()).slice(0, 3)).toEqual(["token", "write", "team-a"]);
    const answer = await fetch(`${server.url}/v1/logins`, { headers: { authorization: `Bearer ${admin.secret}` } });
    const body = await answer.text();
    const hashes = [...entries.join("\n").matchAll(/[0-9a-f]{64}/g)].map(([hash]) => hash);
    expect(hashes).toHaveLength(2);
    for (const secret of [...hashes, admin.secret, sender.secret]) expect(body).not.toContain(secret);
    // Who only writes does not see who else may.
    expect((await fetch(`${server.url}/v1/logins`, { headers: { authorization: `Bearer ${sender.secret}` } })).status).toBe(403);
    await page.close();
  } finally {
    await server.end();
  }
});
