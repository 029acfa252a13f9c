import { expect, test } from "vitest";
import { groupName } from "../src/controls.ts";

test("a group is named by its labels, as the server takes it", () => {
  expect(groupName({ route: '/a"b', code: "500" })).toBe('{route="/a\\"b", code="500"}');
  expect(groupName({ "http.route": "/a" })).toBe('{"http.route"="/a"}');
  expect(groupName({})).toBe("{}");
});
