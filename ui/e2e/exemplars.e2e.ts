/** Exemplars that came by OTLP, as points where their time and value are. */

import { expect, test } from "vitest";
import { boxOf, open, Places, shared, viewWhen } from "./harness.ts";

const NAME = "e2e_checkout_duration";
const all = shared();

/** A histogram point of the last seconds with exemplars, as an SDK of OpenTelemetry sends it. */
async function send(end: number, exemplars: { value: number; ago: number; trace: string }[]): Promise<void> {
  const point = {
    startTimeUnixNano: String((end - 10) * 1e9), timeUnixNano: String(end * 1e9), count: "1000", sum: 20, scale: 4, zeroCount: "0",
    positive: { offset: -104, bucketCounts: Array.from({ length: 50 }, () => "20") },
    attributes: [{ key: "route", value: { stringValue: "/pay" } }],
    exemplars: exemplars.map(({ value, ago, trace }) => ({ timeUnixNano: String((end - ago) * 1e9), asDouble: value, traceId: trace, spanId: "00f067aa0ba902b7" })),
  };
  const body = { resourceMetrics: [{ resource: { attributes: [{ key: "service.name", value: { stringValue: "shop" } }] }, scopeMetrics: [{ metrics: [{ name: NAME, unit: "s", exponentialHistogram: { aggregationTemporality: 1, dataPoints: [point] } }] }] }] };
  const answer = await fetch(`${all.server.url}/api/v1/otlp/v1/metrics`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  expect([answer.status, await answer.text()]).toEqual([200, "{}"]);
}

test("exemplars stand at their time and value, and lead to the lines of their trace", async () => {
  const end = Math.floor(Date.now() / 1000) - 5;
  const traces = ["4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c"];
  const sent = [{ value: 0.05, ago: 2, trace: traces[0] as string }, { value: 0.012, ago: 7, trace: traces[1] as string }];
  await send(end, sent);
  const lines = [{ series: 0, time_ms: (end - 2) * 1000, text: `level=error msg="card refused" trace_id=${traces[0]}` }, { series: 0, time_ms: (end - 3) * 1000, text: "level=info msg=ok" }];
  await all.server.push({ source: crypto.randomUUID(), sequence: 1, series: [{ labels: { __name__: "shop_log", job: "shop" }, kind: "text" }], samples: lines });
  type Found = { data: { seriesLabels: { __name__: string }; exemplars: { value: string; timestamp: number }[] }[] };
  const { data: names } = await all.server.json<{ data: string[] }>("api/v1/label/__name__/values", { classic_views: "false" });
  const name = names.find((one) => one.startsWith(NAME) && !one.endsWith("_exemplar")) as string;
  const { data } = await all.server.json<Found>("api/v1/query_exemplars", { query: name, start: String(end - 60), end: String(end + 1) });
  expect(data.flatMap(({ exemplars }) => exemplars)).toHaveLength(2);

  const { page, errors } = await open(all.browser, `${all.server.url}/?query=${name}&start=${end - 60}&end=${end + 5}`);
  const marks = page.locator(".exemplar");
  await expect.poll(() => marks.count()).toBe(2);
  const now = await viewWhen(page, (one) => one.total === 1000);
  const places = new Places(now);
  const canvas = await boxOf(page.locator("#cells"));
  for (const [i, { value, ago }] of sent.entries()) {
    const box = await boxOf(marks.nth(i));
    const x = now.left + ((end - ago - (now.first - 1) * now.step) / ((now.last - now.first + 1) * now.step)) * now.plotWidth;
    expect(Math.abs(box.x + box.width / 2 - canvas.x - x)).toBeLessThan(1);
    const [top, bottom] = places.span(value * 0.995, value * 1.005);
    expect(box.y + box.height / 2 - canvas.y).toBeGreaterThan(top - 2);
    expect(box.y + box.height / 2 - canvas.y).toBeLessThan(bottom + 2);
  }
  expect(await marks.first().getAttribute("title")).toContain(`50 ms  `);
  expect(await marks.first().getAttribute("title")).toContain(traces[0]);
  await marks.first().click();
  // The line of the trace, and the stored exemplar itself; the other line is not of it.
  await expect.poll(() => page.locator("#log-lines .text").allInnerTexts()).toContain(lines[0]?.text);
  expect(await page.locator("#log-lines .text").allInnerTexts()).not.toContain(lines[1]?.text);
  expect(errors).toEqual([]);
  await page.close();
});
