import { expect, test } from "vitest";
import { offers, take, wordAt, type Offer } from "../src/complete.ts";

const names: Offer[] = ["ogive_hiccup_seconds", "ogive_http_request_seconds", "app_hiccup"].map((name) => ({ name, help: "", call: false }));

test("the word at the caret is a name, and never a part of a string", () => {
  expect(wordAt("sum(ogi", 7)).toBe("ogi");
  expect(wordAt("sum(ogive)", 5)).toBe("o");
  expect(wordAt('a{b="hic', 8)).toBe("");
  expect(wordAt('a{b="x\\"y"} + hic', 17)).toBe("hic");
  expect(wordAt("1 + ", 4)).toBe("");
});

test("names that begin with the word come before those that contain it", () => {
  expect(offers("hic", 3, names).map((offer) => offer.name)).toEqual(["app_hiccup", "ogive_hiccup_seconds"]);
  expect(offers("histogram_q", 11, names).map((offer) => offer.name)).toEqual(["histogram_quantile"]);
  expect(offers("su", 2, names)[0]?.name).toBe("sum");
  expect(offers("h", 1, names)).toEqual([]);
  expect(offers("app_hiccup", 10, names)).toEqual([]);
  expect(offers("sum", 3, names)).toEqual([]);
  expect(offers("og", 2, Array.from({ length: 50 }, (_, i) => ({ name: `og_${i}`, help: "", call: false })))).toHaveLength(8);
});

test("an offer replaces the word, opens the call once, and leaves the rest", () => {
  const [hiccup, rate] = [names[0] as Offer, { name: "rate", help: "", call: true }];
  expect(take("sum(hic)", 7, hiccup)).toEqual({ text: "sum(ogive_hiccup_seconds)", caret: 24 });
  expect(take("ra", 2, rate)).toEqual({ text: "rate(", caret: 5 });
  expect(take("ra(x[1m])", 2, rate)).toEqual({ text: "rate(x[1m])", caret: 4 });
});
