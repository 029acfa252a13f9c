import { expect, test } from "vitest";
import { isNumbers } from "../src/numbers.ts";

const types: Record<string, string> = { a_total: "counter", level: "gauge", took_seconds: "histogram", "http.size": "gauge" };
const asks = (query: string): boolean => isNumbers(query, (name) => types[name]);

// Each of these was once asked for as a heat map first, which the server refuses: an evaluation and an error in the console for nothing.
test.each([
  "a_total", 'level{host="a"}', '{"http.size"}', "rate(a_total[5m])", "sum by (host) (rate(a_total[5m]))", "sum(level) by (host)", "avg(level)",
  "histogram_quantile(0.99, sum by (route) (took_seconds))", "histogram_count(took_seconds)", 'count(took_seconds{a=")"})', "max(took_seconds)", "1", "1 + 1",
])("%s gives numbers", (query) => expect(asks(query)).toBe(true));

test.each([
  "took_seconds", "nobody_knows", "sum(took_seconds)", "rate(took_seconds[5m])", "sum by (route) (rate(took_seconds[5m]))", "took_seconds + took_seconds",
  "count(level) * took_seconds", "sum(nobody_knows)", "sum(", "", 'max("', "(took_seconds)",
])("%s may give histograms", (query) => expect(asks(query)).toBe(false));
