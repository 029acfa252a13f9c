import { expect, test } from "vitest";
import { matches, patternOf } from "../src/picker.ts";
import { errorPosition, withEntry } from "../src/querybox.ts";
import { formatSelector, isChosen, parseSelector, selectorOf, toggle } from "../src/selector.ts";
import { hasText, isInstantOnly, isText, rowsOf } from "../src/texts.ts";

test.each(["a", 'a{b="c"}', 'a:b{b="c", d!="e", f=~"g|h", i!~"j"}', 'a{b="say \\"hi\\" \\\\ there"}', '{"http.server.duration"}', '{"größe 😀", "http.route"="/a", b=~"c"}'])("%s is read and written alike", (text) => {
  expect(formatSelector(parseSelector(text)!)).toBe(text);
});

test.each(["", "1", "a[5m]", "sum(a)", "a + b", 'a{b="c"', 'a{b="c" d="e"}', "a{b=c}", "a offset 5m"])("%s is not a plain selector", (text) => {
  expect(parseSelector(text)).toBeNull();
});

// A click on a name with dots, as OpenTelemetry has them, once wrote an expression that the server refuses.
test("names and labels of any characters stand in quotes", () => {
  expect(selectorOf("http.server.duration")).toBe('{"http.server.duration"}');
  expect(parseSelector('{"http.server.duration", "http.route"!=\'a"b\'}')).toEqual({ name: "http.server.duration", matchers: [{ label: "http.route", op: "!=", value: 'a"b' }] });
  expect(formatSelector(toggle(parseSelector('{"größe"}')!, "http.route", "/a"))).toBe('{"größe", "http.route"="/a"}');
  for (const text of ['{a="b"}', '{"a", "b"}', 'a{"b"}']) expect(parseSelector(text)).toBeNull();
});

test("values are added to and taken from a selector, with regular expression characters kept literal", () => {
  let selector = parseSelector('a{x="1"}')!;
  selector = toggle(selector, "route", "/a.b");
  expect(formatSelector(selector)).toBe('a{x="1", route="/a.b"}');
  selector = toggle(selector, "route", "/c|d");
  expect(formatSelector(selector)).toBe('a{x="1", route=~"/a\\\\.b|/c\\\\|d"}');
  expect(isChosen(parseSelector('a{route=~"/a\\\\.b|/e"}')!, "route", "/a.b")).toBe(true);
  selector = toggle(toggle(parseSelector('a{route="/e"}')!, "route", "/f"), "route", "/e");
  expect(formatSelector(selector)).toBe('a{route="/f"}');
  expect(formatSelector(toggle(selector, "route", "/f"))).toBe("a");
});

test("a refusal is pointed at where the server says it is", () => {
  expect(errorPosition("1:5: unexpected )", "sum(())")).toEqual({ from: 4, to: 5 });
  expect(errorPosition("parse error at 1:1: unknown function", "foo(a)")).toEqual({ from: 0, to: 3 });
  expect(errorPosition("1:8: unexpected end", "sum(((a")).toEqual({ from: 7, to: 7 });
  expect(errorPosition("2:2: no", "a\n+b")).toEqual({ from: 3, to: 4 });
  expect(errorPosition("too many series", "a")).toBeNull();
  expect(errorPosition("9:9: no", "a")).toBeNull();
});

test("history is newest first, without doubles, and bounded", () => {
  expect(withEntry(["a", "b"], "b")).toEqual(["b", "a"]);
  let history: string[] = [];
  for (let i = 0; i < 80; i++) history = withEntry(history, String(i));
  expect(history).toHaveLength(50);
  expect(history[0]).toBe("79");
});

test("the series list finds by any words", () => {
  const entry = { name: "ogive_hiccup_seconds", meta: { type: "histogram", help: "Overshoot of a sleep", unit: "s" } };
  expect(matches(entry, "sleep hiccup")).toBe(true);
  expect(matches(entry, "HICC")).toBe(true);
  expect(matches(entry, "hiccup fsync")).toBe(false);
  expect(patternOf(["a_total", "http.server(x)"])).toBe('"a_total|http\\\\.server\\\\(x\\\\)"');
});

test("strings and ranges are asked for at one instant", () => {
  for (const one of ['"text"', "a[5m]", 'a{b="c"}[5m] ', "'x'"]) expect(isInstantOnly(one)).toBe(true);
  for (const one of ["a", "rate(a[5m])", 'a{b="]"}', "1"]) expect(isInstantOnly(one)).toBe(false);
});

test("texts are distinguished from numbers", () => {
  for (const number of ["1", "-1.5e-7", "NaN", "+Inf", "-Inf", ".5", "5."]) expect(isText(number)).toBe(false);
  for (const text of ["", "up", "1 s", "0x10", "infinite"]) expect(isText(text)).toBe(true);
  expect(hasText({ resultType: "matrix", result: [{ metric: {}, values: [[1, "1"], [2, "restarted"]] }] })).toBe(true);
  expect(hasText({ resultType: "vector", result: [{ metric: {}, value: [1, "1"] }] })).toBe(false);
  expect(rowsOf({ resultType: "matrix", result: [{ metric: { a: "b" }, values: [[1, "x"], [2, "y"]] }] }).map((row) => row.value)).toEqual(["y", "x"]);
});
