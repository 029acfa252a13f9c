import { expect, test } from "vitest";
import type { Labels, Series } from "../src/api.ts";
import { BOX, DRAWN_MAX, edgeText, edgesOf, findingsOf, heatmapAddress, hostOf, layout, queries, type Edge } from "../src/wiremap.ts";

function series(client: string, service: string, value: number, more: Labels = {}): Series {
  return { metric: { client, service, protocol: "http1", ...more }, value: [1_700_000_000, String(value)] };
}

function edge(client: string, service: string, rate = 1, observer: Labels = {}): Edge {
  return { key: JSON.stringify([client, service, observer]), client, service, protocol: "http1", observer, rate, p50: 0.001, p99: 0.01, errors: 0 };
}

test("an edge has its rate, percentiles and errors, the busiest first", () => {
  const rates = [series("10.0.0.1", "10.0.0.2:80", 5), series("10.0.0.1", "10.0.0.3:6379", 50), series("10.0.0.9", "10.0.0.3:6379", 0)];
  const [first, second, ...none] = edgesOf({
    rates,
    medians: [series("10.0.0.1", "10.0.0.2:80", 0.002)],
    highs: [series("10.0.0.1", "10.0.0.2:80", 0.02)],
    errors: [series("10.0.0.1", "10.0.0.2:80", 1)],
  });
  expect([first?.service, second?.service, none]).toEqual(["10.0.0.3:6379", "10.0.0.2:80", []]);
  expect(second).toMatchObject({ rate: 5, p50: 0.002, p99: 0.02, errors: 1 });
  expect(edgeText(second as Edge)).toBe("5/s · p99 20 ms · 20 % errors");
});

test("an edge without any answer is one of errors only", () => {
  const [only] = edgesOf({ rates: [], medians: [], highs: [], errors: [series("10.0.0.1", "10.0.0.2:80", 2)] });
  expect(edgeText(only as Edge)).toBe("0/s · p99 – · 100 % errors");
});

test("several observers of an edge count it once, and of loopback each its own", () => {
  const of = (service: string) => ["a", "b"].map((host, at) => series("10.0.0.1", service, 10 + at, { host }));
  const measured = (rates: Series[]) => edgesOf({ rates, medians: [], highs: [], errors: [] });
  expect(measured(of("10.0.0.2:80")).map(({ rate, observer }) => [rate, observer])).toEqual([[11, { host: "b" }]]);
  expect(measured(of("127.0.0.1:80")).map(({ rate }) => rate)).toEqual([11, 10]);
});

test("findings are listed by how often", () => {
  const of = (kind: string, count: string): Series => ({ metric: { kind, service: "10.0.0.2:80", protocol: "tcp" }, value: [1, count] });
  expect(findingsOf([of("refused", "0"), of("half_open", "1.02"), of("zero_window", "7"), of("dns_retry", "NaN")]).map(({ kind, count }) => [kind, count])).toEqual([["zero_window", 7], ["half_open", 2]]);
});

test("an edge opens its own heat map at the same range", () => {
  const address = heatmapAddress({ ...edge('1"0', "[::1]:80", 1, { host: "a" }), protocol: "redis" }, { last: 900 });
  const params = new URL(address, "http://x/").searchParams;
  expect([params.get("query"), params.get("range")]).toEqual(['ogive_wire_edge_seconds{client="1\\"0", service="[::1]:80", protocol="redis", host="a"}', "15m"]);
});

test("hosts are those of services, IPv6 as well", () => {
  expect(["10.0.0.1:80", "[::1]:80", "other"].map(hostOf)).toEqual(["10.0.0.1", "::1", "other"]);
});

test("a host stands right of those that ask it, and a circle ends", () => {
  const map = layout([edge("10.0.0.1", "10.0.0.2:80"), edge("10.0.0.2", "10.0.0.3:5432"), edge("10.0.0.2", "10.0.0.3:6379"), edge("10.0.0.1", "10.0.0.3:5432"), edge("10.0.0.3", "10.0.0.2:81")]);
  const column = new Map(map.places.map(({ title, x }) => [title, (x - BOX.gap) / (BOX.width + BOX.between)]));
  expect(Object.fromEntries(column)).toEqual({ "10.0.0.1": 0, "10.0.0.2": 1, "10.0.0.3": 2 });
  expect(map.places.find(({ title }) => title === "10.0.0.3")?.services.map(({ text }) => text)).toEqual(["5432 http1", "6379 http1"]);
  expect(map.links.length).toBe(5);
  const circle = layout([edge("10.0.0.1", "10.0.0.2:80"), edge("10.0.0.2", "10.0.0.1:80")]);
  expect(circle.places.length).toBe(2);
});

test("a host that asks itself is drawn twice, and loopback of two hosts apart", () => {
  expect(layout([edge("10.0.0.1", "10.0.0.1:80")]).places.map(({ title }) => title)).toEqual(["10.0.0.1", "10.0.0.1"]);
  const titles = layout(["a", "b"].map((host) => edge("127.0.0.1", "127.0.0.1:80", 1, { host }))).places.map(({ title }) => title);
  expect(titles.toSorted()).toEqual(["127.0.0.1 of a", "127.0.0.1 of a", "127.0.0.1 of b", "127.0.0.1 of b"]);
});

test("boxes and texts do not lie on another, and what is too much is not drawn", () => {
  const many = Array.from({ length: DRAWN_MAX + 20 }, (_, at) => edge(`10.0.1.${at % 12}`, `10.0.2.${at % 7}:${at}`, 1000 - at));
  const map = layout(many);
  expect([map.links.length, map.hidden]).toEqual([DRAWN_MAX, 20]);
  for (const [at, one] of map.places.entries()) {
    for (const other of map.places.slice(at + 1)) expect(one.x === other.x && one.y < other.y + other.height && other.y < one.y + one.height).toBe(false);
  }
  for (const [at, one] of map.links.entries()) for (const other of map.links.slice(at + 1)) expect(Math.abs(one.y - other.y)).toBeGreaterThanOrEqual(15.99);
});

test("what is asked for covers the range", () => {
  expect(queries(900).highs).toBe("histogram_quantile(0.99, rate(ogive_wire_edge_seconds[900s]))");
});
