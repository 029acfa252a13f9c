/**
 * Pictures of what a current Prometheus 3 measures of itself and sends by remote write, native and classic histograms at once, beside its
 * own answers. `scripts/peers` builds it in minutes, and these tests are skipped without it.
 */

import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { freePort, open, shared, viewWhen } from "./harness.ts";

const PROMETHEUS = resolve(import.meta.dirname, "../../target/peers/prometheus");
const NAME = "prometheus_http_request_duration_seconds";
const SCRAPES = 40;

const all = shared();

/** What Prometheus itself says of an expression that is one number, now or at a time; null while it is none. */
async function ask(url: string, query: string, time = Date.now() / 1000): Promise<number | null> {
  const answer = await fetch(`${url}/api/v1/query?${new URLSearchParams({ query, time: String(time) })}`);
  const { data } = (await answer.json()) as { data?: { result: { value: [number, string] }[] } };
  const value = data?.result[0]?.value[1];
  return value === undefined ? null : Number(value);
}

describe.skipIf(!existsSync(PROMETHEUS))("a Prometheus 3 that sends what it scrapes of itself", () => {
  const directory = mkdtempSync(join(tmpdir(), "ogive-prometheus-"));
  let url = "";
  let stop = (): Promise<void> => Promise.resolve();
  /** The range of the pictures in seconds, and the requests of which Prometheus stored that they ended in it. */
  let [start, end, requests] = [0, 0, 0];

  beforeAll(async () => {
    const port = await freePort();
    url = `http://127.0.0.1:${port}`;
    const config = {
      global: { scrape_interval: "1s", scrape_native_histograms: true, always_scrape_classic_histograms: true },
      scrape_configs: [{ job_name: "self", static_configs: [{ targets: [`127.0.0.1:${port}`] }] }],
      remote_write: [{ url: `${all.server.url}/api/v1/write`, send_native_histograms: true, protobuf_message: "io.prometheus.write.v2.Request", queue_config: { batch_send_deadline: "1s" } }],
    };
    writeFileSync(join(directory, "prometheus.yml"), JSON.stringify(config));
    const child = spawn(PROMETHEUS, [`--config.file=${directory}/prometheus.yml`, `--storage.tsdb.path=${directory}/data`, `--web.listen-address=127.0.0.1:${port}`], { stdio: "ignore" });
    stop = () => new Promise((done) => {
      child.once("exit", () => done());
      child.kill("SIGTERM");
    });
    const scrapes = async (): Promise<boolean> => ((await ask(url, "count_over_time(up[1h])").catch(() => null)) ?? 0) > SCRAPES;
    await vi.waitUntil(scrapes, { timeout: 180_000, interval: 500 });
    // Each scrape is a request that the next one finds counted: the first and the last of the range have been scraped.
    const counts = `histogram_count(${NAME}{handler="/metrics"})`;
    end = Math.floor(Date.now() / 1000) - 5;
    start = end - 25;
    const at = async (t: number): Promise<number> => (await ask(url, counts, t)) ?? Number.NaN;
    requests = (await at(end)) - (await at(start));
    expect(requests).toBeGreaterThan(20);
  }, 200_000);

  afterAll(async () => {
    await stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const picture = async (query: string): Promise<Page> => {
    const { page, errors } = await open(all.browser, `${all.server.url}/?query=${encodeURIComponent(query)}&start=${start}&end=${end}`, "dark", 760, 1240);
    const now = await viewWhen(page, (one) => one.total > 0 && one.columns > 20);
    expect(now.total).toBe(requests);
    expect(errors).toEqual([]);
    return page;
  };

  test("its native histograms are a heat map with each request", async () => {
    await (await picture(`${NAME}{handler="/metrics"}`)).close();
  });

  test("its classic buckets are a heat map with each request", async () => {
    await (await picture(`${NAME}_bucket{handler="/metrics"}`)).close();
  });
});
