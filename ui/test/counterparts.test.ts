import { expect, test } from "vitest";
import { overlaidWords } from "../src/comparepanel.ts";
import { comparedText, formatCompared, offsetOf, parseCompared } from "../src/compared.ts";
import { counterparts, routeOf, routeSelectors } from "../src/counterparts.ts";
import { parseSelector } from "../src/selector.ts";

test("an expression to lay over stands in the address, at the same time", () => {
  const over = parseCompared('over:http_seconds{route="/items"}');
  expect(over).toEqual({ over: 'http_seconds{route="/items"}' });
  expect(parseCompared("over:")).toEqual({ over: "" });
  if (over === null) throw new Error("it is one");
  expect(parseCompared(formatCompared(over))).toEqual(over);
  expect([offsetOf(over, 1_700_000_000, 5), comparedText(over)]).toEqual([0, 'http_seconds{route="/items"}']);
});

test("what has the same route is offered, whatever its label is called", () => {
  expect(routeOf('page_seconds{timing="ttfb", route="/items"}')).toBe("/items");
  expect(routeOf('http_seconds{http_route="/items/:id"}')).toBe("/items/:id");
  for (const none of ["page_seconds", 'page_seconds{route!="/items"}', 'page_seconds{route=~"/a|/b"}', 'page_seconds{job="x"}', 'sum(page_seconds{route="/items"})']) expect(routeOf(none)).toBeNull();
  expect(routeSelectors("/a")[0]).toBe('{route="/a"}');
  const series = [
    { __name__: "page_seconds", route: "/items", timing: "ttfb", service: "shop" },
    { __name__: "page_seconds", route: "/items", timing: "load", service: "shop" },
    { __name__: "http_seconds", route: "/items", code: "2xx" },
    { __name__: "http_seconds", route: "/items", code: "5xx" },
    { __name__: "http_server_request_duration_seconds", http_route: "/items" },
    { __name__: "requests_total", route: "/items" },
    { __name__: "odd`name", route: "/items" },
    { __name__: "http_seconds", route: "/other" },
  ];
  const of = (query: string): string[] => counterparts(query, "/items", series, (name) => name !== "requests_total");
  const server = ['http_seconds{route="/items"}', 'http_server_request_duration_seconds{http_route="/items"}'];
  expect(of('page_seconds{route="/items", timing="ttfb"}')).toEqual([...server, 'page_seconds{route="/items", timing="load"}']);
  expect(of('http_seconds{route="/items"}')).toEqual([server[1], 'page_seconds{route="/items", timing="load"}', 'page_seconds{route="/items", timing="ttfb"}']);
  for (const query of of("page_seconds")) expect(parseSelector(query)).not.toBeNull();
});

test("the verdict on two ranges is said of two expressions", () => {
  expect(overlaidWords("after is 29.8 % slower than before")).toBe("this is 29.8 % slower than the other");
  expect(overlaidWords("the range before has no samples: there is nothing to compare")).toBe("the other has no samples: there is nothing to compare");
  expect(overlaidWords("neither range has samples: there is nothing to compare")).toBe("neither has samples: there is nothing to compare");
});
