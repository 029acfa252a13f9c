// Holds every record of the OpenHistogram vectors to the library's answer, or to Ogive's written rule where the two differ on
// purpose (docs/formats/openhistogram.md). OGIVE_VECTORS_DIR names another directory.

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";

import * as ogive from "../dist/esm/index.js";

const number = (value) => (typeof value === "string" ? Number(value) : value);
const bigs = (list) => list.map(([val, exp, count]) => ({ val, exp, count: BigInt(count) }));
const text = (bin) => `${bin.val} ${bin.exp}`;
const MAX = (1n << 64n) - 1n;

function histogramOf(bins) {
  const histogram = new ogive.Histogram();
  for (const bin of bins) if (bin.count > 0n) histogram.recordBin(bin, bin.count);
  return histogram;
}

const binsOf = (histogram) => [...histogram.bins()].map(([bin, count]) => `${text(bin)} ${count}`);

/** Equal bins added up, empty ones dropped, in order; apart from the code under test. */
function canonical(bins) {
  const order = ({ val, exp }) => {
    if (val === -1) return -Infinity;
    return val === 0 ? 0 : Math.sign(val) * (1_000_000 + Math.sign(1) * (exp * 1000 + Math.abs(val)));
  };
  const sums = new Map();
  for (const bin of bins) {
    const place = bin.val === 0 ? { val: 0, exp: 0 } : bin;
    const sum = (sums.get(text(place))?.count ?? 0n) + bin.count;
    sums.set(text(place), { ...place, count: sum > MAX ? MAX : sum });
  }
  const sorted = [...sums.values()].filter(({ count }) => count > 0n).sort((a, b) => order(a) - order(b));
  return sorted.map((bin) => `${text(bin)} ${bin.count}`);
}

function near(what, found, expected, tolerance) {
  const same = Object.is(found, expected) || found === expected || Math.abs(found - expected) <= tolerance;
  assert.ok(same || (Number.isNaN(found) && Number.isNaN(expected)), `${what}: found ${found}, expected ${expected}`);
}

/** The written rule, with the decade by a search over the powers. */
function rule(value) {
  const magnitude = Math.abs(value);
  if (!(magnitude < 1e128)) return { val: -1, exp: 0 };
  if (magnitude < 1e-128) return { val: 0, exp: 0 };
  let exp = 127;
  while (Number(`1e${exp}`) > magnitude) exp -= 1;
  let val = Math.floor((magnitude / Number(`1e${exp}`)) * 10 + 1e-13);
  if (val === 100) [val, exp] = [10, exp + 1];
  return exp > 127 ? { val: -1, exp: 0 } : { val: value < 0 ? -val : val, exp };
}

function justBelowPower(value) {
  for (let exp = -128; exp <= 128; exp += 1) {
    const power = Number(`1e${exp}`);
    if (Math.abs(value) < power && Math.abs(value) >= power * (1 - 3e-13)) return true;
  }
  return false;
}

function doubleToBin(_, record) {
  const value = new DataView(Uint8Array.from(Buffer.from(record.bits, "hex")).buffer).getFloat64(0);
  const found = ogive.binOf(value);
  const library = { val: record.bin[0], exp: record.bin[1] };
  if (text(found) !== text(library)) {
    assert.deepEqual(found, rule(value));
    assert.ok(justBelowPower(value), `${value} is not just below a power of ten`);
    return;
  }
  if (library.val === -1) return;
  assert.deepEqual(ogive.binOfLabel(record.str), found);
  assert.deepEqual(ogive.binOfLabel(ogive.labelOfBin(found)), found);
  const one = new ogive.Histogram();
  one.recordBin(found, 1);
  near("midpoint", ogive.mean(one), record.mid, Math.abs(record.mid) * 9e-16);
}

function integerToBin(_, record) {
  assert.deepEqual(text(ogive.binOfInteger(BigInt(record.value), record.scale)), record.bin.join(" "));
}

function serialize(_, record) {
  const bins = bigs(record.bins);
  const histogram = histogramOf(bins);
  const defect = "upstream_defect" in record;
  assert.equal(Buffer.from(ogive.encode(histogram)).toString("hex"), defect ? record.correct_hex : record.hex);
  assert.equal(ogive.encodeBase64(histogram), defect ? record.correct_b64 : record.b64);
  assert.deepEqual(binsOf(ogive.decode(ogive.encode(histogram)).histogram), canonical(bins));
}

function deserialize(list, record) {
  let read = null;
  let length = null;
  try {
    if (list === "records_b64") read = ogive.decodeBase64(record.b64);
    else {
      const bytes = Uint8Array.from(Buffer.from(record.hex, "hex"));
      read = ogive.decode(bytes);
      length = bytes.length - read.repairs.trailingBytes;
    }
  } catch (error) {
    if (!(error instanceof ogive.FormatError)) throw error;
  }
  if (record.rc < 0) {
    assert.ok(read === null || read.repairs.looseBase64, "read, the library refuses");
    return;
  }
  assert.notEqual(read, null, "refused, the library reads it");
  if (length !== null) assert.equal(length, record.rc);
  assert.deepEqual(binsOf(read.histogram), canonical(bigs(record.bins)));
}

function merge(_, record) {
  const histogram = histogramOf(bigs(record.a));
  let short = 0;
  for (const other of record.b) {
    if (record.op === "accumulate") histogram.merge(histogramOf(bigs(other)));
    else if (record.op === "subtract") short += histogram.subtract(histogramOf(bigs(other)));
    else assert.fail(`no test knows ${record.op}`);
  }
  if (record.op === "subtract") assert.equal(short > 0, record.rc !== 0);
  assert.deepEqual(binsOf(histogram), canonical(bigs(record.result)));
}

function transform(_, record) {
  const before = bigs(record.a);
  const histogram = histogramOf(before);
  const expected = canonical(bigs(record.result));
  if (record.op === "remove") {
    assert.equal(histogram.remove(number(record.value), BigInt(record.n)), BigInt(record.removed));
    assert.deepEqual(binsOf(histogram), expected);
  } else if (record.op === "compress_mbe") {
    assert.deepEqual(binsOf(ogive.compressedBelow(histogram, record.mbe)), expected);
  } else if (record.op === "clamp") {
    const [lower, upper] = [number(record.lower), number(record.upper)];
    const found = binsOf(ogive.clamped(histogram, lower, upper));
    for (const bin of canonical(before)) {
      const [val, exp] = bin.split(" ").map(Number);
      const edge = (digits) => Number(`${digits}e${exp - 1}`);
      const [lo, hi] = val > 0 ? [edge(val), edge(val + 1)] : [edge(val - 1), edge(val)];
      const meets = Math.abs(lo - upper) <= 1e-15 * Math.abs(upper) || Math.abs(hi - lower) <= 1e-15 * Math.abs(lower);
      assert.ok(found.includes(bin) === expected.includes(bin) || meets, `bin ${bin}`);
    }
  } else assert.fail(`no test knows ${record.op}`);
}

function adhoc(_, record) {
  const buckets = record.in.map(([count, lower, upper]) => ({
    count: BigInt(count), lower: number(lower), upper: number(upper),
  }));
  const found = binsOf(ogive.fromBuckets(record.mode, buckets));
  const tail = buckets.at(-1);
  // The library places a tail behind a bucket below zero outside its own bounds.
  if (buckets.length > 1 && tail.upper >= 1e128 && buckets.at(-2).lower < 0) {
    const inside = [...ogive.fromBuckets(record.mode, buckets).bins()].some(([bin]) => bin.val / 10 * 10 ** bin.exp >= tail.lower * 0.999);
    assert.ok(inside || tail.count === 0n);
    return;
  }
  assert.deepEqual(found, canonical(bigs(record.result)));
}

function statistics(_, record) {
  const bins = bigs(record.bins);
  const histogram = histogramOf(bins);
  assert.equal(histogram.count, BigInt(record.sample_count));
  const numbers = bins.filter(({ val }) => val !== -1);
  const sum = numbers.reduce((all, { count }) => all + count, 0n);
  const n = Number(sum);
  const size = (k) =>
    numbers.reduce((all, { val, exp, count }) => all + Math.abs((val / 10) * Number(`1e${exp}`) * 1.1) ** k * Number(count), 0);
  near("mean", ogive.mean(histogram), number(record.ref_mean), (1e-13 * size(1)) / n);
  near("sum", ogive.sum(histogram), number(record.sum), 1e-13 * size(1));
  near("stddev", ogive.standardDeviation(histogram), number(record.ref_stddev), 1e-12 * number(record.ref_stddev));
  record.moment.map(number).forEach((expected, at) => {
    const found = ogive.openHistogramMoment(histogram, at + 1);
    if (Number.isFinite(expected)) near("moment", found, expected, (1e-12 * size(at + 1)) / n ** (at + 1));
    else assert.ok(!Number.isFinite(found));
  });
  record.q.forEach((q, at) => {
    for (const [kind, find] of [["quantile1", ogive.quantileType1], ["quantile7", ogive.quantileType7]]) {
      if (record[`${kind}_rc`] !== 0) continue;
      const expected = number(record[kind][at]);
      near(`${kind} ${q}`, find(histogram, q), expected, 1e-13 * Math.abs(expected));
    }
    const found = ogive.quantile(histogram, q);
    if (found !== null) assert.ok(found.lo <= found.value && found.value <= found.hi);
  });
  const wraps = bins.reduce((all, { count }) => all + count, 0n) > MAX;
  const nan = bins.filter(({ val }) => val === -1).reduce((all, { count }) => all + count, 0n);
  record.threshold.map(number).forEach((x, at) => {
    if (record.inverse_quantile_rc === 0 && !wraps)
      near(`fraction below ${x}`, ogive.fractionBelow(histogram, x), number(record.inverse_quantile[at]), 1e-12);
    if (wraps || Math.abs(x) >= 1e128) return;
    const expected = (kind) => BigInt(record.count[kind][at]);
    assert.equal(ogive.countBelow(histogram, x), expected("below_inclusive"));
    assert.equal(ogive.countBelowExclusive(histogram, x), expected("below_exclusive"));
    assert.equal(ogive.countAbove(histogram, x) + nan, expected("above_inclusive"));
    assert.equal(ogive.countAboveExclusive(histogram, x) + nan, expected("above_exclusive"));
    const place = rule(x);
    const beside = bins.filter((bin) => text(bin) === text(place)).reduce((all, { count }) => all + count, 0n);
    assert.equal(ogive.countNearby(histogram, x), beside);
  });
}

const CHECKERS = {
  "adhoc.json": adhoc, "deserialize.json": deserialize, "double_to_bin.json": doubleToBin, "intscale_to_bin.json": integerToBin,
  "merge.json": merge, "serialize.json": serialize, "stats.json": statistics, "transform.json": transform,
};

/** HdrHistogram's forms, in vectors/hdrhistogram/read.json also when another directory is named that has none. */
async function hdrVectors(given, failures) {
  const inner = join(given, "hdrhistogram/read.json");
  const own = new URL("../../../vectors/hdrhistogram/read.json", import.meta.url).pathname;
  const { records, refused } = JSON.parse(readFileSync(existsSync(inner) ? inner : own, "utf8"));
  let passed = 0;
  for (const { name, hdr, unit, says = "", openhistogram = "refused" } of [...records, ...refused]) {
    const read = (histogram) => (histogram.exact === null ? ogive.encodeBase64(histogram) : "a form with a sum");
    const found = await ogive.decodeHdrBase64(hdr, unit).then(read, (error) =>
      error instanceof ogive.FormatError && error.message.includes(says) ? "refused" : String(error));
    if (found === openhistogram) passed += 1;
    else failures.push(`HdrHistogram, ${name}: ${found}`);
  }
  return passed;
}

test("every record of the vectors", async () => {
  const given = process.env.OGIVE_VECTORS_DIR ?? new URL("../../../vectors", import.meta.url).pathname;
  const directory = existsSync(join(given, "openhistogram")) ? join(given, "openhistogram") : given;
  const files = readdirSync(directory).filter((name) => name.endsWith(".json"));
  let [passed, failures] = [0, []];
  for (const name of files) {
    const document = JSON.parse(readFileSync(join(directory, name), "utf8"));
    for (const list of Object.keys(document).filter((key) => key.startsWith("records"))) {
      document[list].forEach((record, at) => {
        try {
          CHECKERS[name](list, record);
          passed += 1;
        } catch (error) {
          failures.push(`${name} ${list}[${at}]: ${error.message}`);
        }
      });
    }
  }
  passed += await hdrVectors(given, failures);
  console.log(`js: ${passed} passed, ${failures.length} failed`);
  assert.ok(files.length > 0, `${directory} holds no vectors`);
  assert.deepEqual(failures.slice(0, 5), []);
});
