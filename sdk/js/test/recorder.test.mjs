// Flat bins against the rule of integers, and what a take holds.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import test from "node:test";

import { binOfInteger, binOfLabel, Histogram, labelOfBin, Recorder } from "../dist/esm/index.js";

function binRecorded(nanoseconds) {
  const recorder = new Recorder();
  recorder.recordNanoseconds(nanoseconds);
  const [[bin]] = [...recorder.take().bins()];
  return bin;
}

test("a duration is in the bin of the rule", () => {
  const values = [0, 1, 2, 9, 10, 99, 100, 101, Number.MAX_SAFE_INTEGER];
  for (let power = 1; power < Number.MAX_SAFE_INTEGER / 100; power *= 10)
    for (let digits = 10; digits < 100; digits += 1) values.push(power * digits, power * digits + 1, power * digits - 1);
  for (let at = 0; at < 2000; at += 1) values.push(Math.floor(2 ** (Math.random() * 53)));
  for (const value of values) assert.deepEqual(binRecorded(value), binOfInteger(value, -9), `${value} ns`);
  for (const value of [-5, NaN, 0.5]) assert.deepEqual(binRecorded(value), { val: 0, exp: 0 });
  assert.deepEqual(binRecorded(Infinity), binOfInteger(Number.MAX_SAFE_INTEGER, -9));
});

test("a take holds count, sum and extremes, and begins anew", () => {
  const recorder = new Recorder();
  for (let at = 1; at <= 1000; at += 1) recorder.recordNanoseconds(at);
  const taken = recorder.take();
  assert.equal(taken.count, 1000n);
  assert.deepEqual(taken.exact, { sum: 500500 / 1e9, min: 1e-9, max: 1e-6 });
  assert.equal(recorder.take().count, 0n);
});

// Merging adds in place and inserts what is missing: every mixture of bins must be what a map of counts says.
test("merges are those of a map", () => {
  for (let round = 0; round < 2000; round += 1) {
    const [total, model] = [new Histogram(), new Map()];
    for (let part = 0; part < 4; part += 1) {
      const added = new Histogram();
      for (let bins = Math.floor(Math.random() * 12); bins > 0; bins -= 1) {
        const bin = binOfInteger(Math.floor(Math.random() * 40) - 10, 0);
        const label = Math.random() < 0.1 ? "NaN" : labelOfBin(bin);
        added.recordBin(binOfLabel(label), 2n);
        model.set(label, (model.get(label) ?? 0n) + 2n);
      }
      total.merge(added);
    }
    const found = [...total.bins()];
    assert.deepEqual(new Map(found.map(([bin, count]) => [labelOfBin(bin), count])), new Map(model));
    const order = found.map(([bin]) => (labelOfBin(bin) === "NaN" ? -Infinity : Number(labelOfBin(bin))));
    assert.deepEqual(order, order.toSorted((a, b) => a - b));
  }
});

test("work is timed, also when it throws, and a promise until it settles", async () => {
  const recorder = new Recorder();
  assert.equal(recorder.timed(() => 42), 42);
  assert.throws(() => recorder.timed(() => { throw new Error("no"); }));
  assert.equal(await recorder.timed(async () => 43), 43);
  assert.equal(recorder.take().count, 3n);
});

test("the package loads as CommonJS too", () => {
  const { Histogram } = createRequire(import.meta.url)("../dist/cjs/index.js");
  assert.equal(new Histogram().count, 0n);
});
