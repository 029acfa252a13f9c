// What do a record, a merge and four quantiles cost beside hdr-histogram-js and the histogram of node:perf_hooks?
//
// All contenders run in turn, round after round, by the CPU time of the process. A ratio is taken within a round and is how many
// times our time another takes. ROUNDS=n for more rounds. No registry has a library of OpenHistogram for JavaScript.

import { cpus } from "node:os";
import { createHistogram } from "node:perf_hooks";

import * as hdr from "hdr-histogram-js";

import { Histogram, quantile, Recorder } from "../dist/esm/index.js";

const VALUES = 1 << 17;
const ROUNDS = Number(process.env.ROUNDS ?? 15);
const HOUR_NS = 3_600_000_000_000;
const QUANTILES = [0.5, 0.9, 0.99, 0.999];

let state = 88172645463325252n;
function random() {
  state ^= (state << 13n) & 0xffffffffffffffffn;
  state ^= state >> 7n;
  state ^= (state << 17n) & 0xffffffffffffffffn;
  return Number(state >> 11n) / 2 ** 53;
}

/** Twelve uniform numbers less six: normal enough for a load. */
const normal = () => Array.from({ length: 12 }, random).reduce((sum, one) => sum + one, -6);

/** Latencies of one regime, and of three that take turns with every eighth value tiny. */
function streams() {
  const [logNormal, mixed] = [new Float64Array(VALUES), new Float64Array(VALUES)];
  const centres = [2e3, 3e5, 4e7];
  let centre = centres[0];
  for (let at = 0; at < VALUES; at += 1) {
    logNormal[at] = Math.floor(250_000 * Math.exp(normal()));
    if (random() < 1 / 64) centre = centres[Math.floor(random() * 3)];
    mixed[at] = at % 8 === 0 ? Math.floor(random() * 100) : Math.floor(centre * Math.exp(0.3 * normal()));
  }
  return { logNormal, mixed };
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[numbers.length >> 1];

const cpuNs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) * 1000;
};

function times(group, contenders) {
  const costs = contenders.map(() => []);
  for (let round = -3; round < ROUNDS; round += 1) {
    contenders.forEach(([, operations, run], at) => {
      const begin = cpuNs();
      run();
      const cost = (cpuNs() - begin) / operations;
      if (round >= 0) costs[at].push(cost); // those before warm up
    });
  }
  const line = (name, ...numbers) => console.log(name.padEnd(38), ...numbers.map((one) => String(one).padStart(9)));
  console.log(`\n${group}: ${ROUNDS} rounds`);
  line("", "median ns", "least", "greatest", "ratio");
  contenders.forEach(([name], at) => {
    const ratio = median(costs[at].map((cost, round) => cost / costs[0][round]));
    line(name, ...[median(costs[at]), Math.min(...costs[at]), Math.max(...costs[at]), ratio].map((one) => one.toFixed(2)));
  });
}

const repeat = (count, work) => () => {
  for (let at = 0; at < count; at += 1) work();
};
const hdrOf = (digits) => hdr.build({ lowestDiscernibleValue: 1, highestTrackableValue: HOUR_NS, numberOfSignificantValueDigits: digits });

function record(group, values) {
  const [recorder, histogram, two, three, node] = [new Recorder(), new Histogram(), hdrOf(2), hdrOf(3), createHistogram()];
  const packed = hdr.build({ lowestDiscernibleValue: 1, highestTrackableValue: HOUR_NS, numberOfSignificantValueDigits: 3, bitBucketSize: "packed" });
  // Each has a loop of its own, so that one compiled form does not serve them all.
  times(`record, ${group}`, [
    ["Recorder.recordNanoseconds", 4 * VALUES, repeat(4, () => { for (let at = 0; at < VALUES; at += 1) recorder.recordNanoseconds(values[at]); })],
    ["hdr-histogram-js, 2 digits", 4 * VALUES, repeat(4, () => { for (let at = 0; at < VALUES; at += 1) two.recordValue(values[at]); })],
    ["hdr-histogram-js, 3 digits", 4 * VALUES, repeat(4, () => { for (let at = 0; at < VALUES; at += 1) three.recordValue(values[at]); })],
    ["hdr-histogram-js, 3 digits, packed", VALUES, () => { for (let at = 0; at < VALUES; at += 1) packed.recordValue(values[at]); }],
    ["node:perf_hooks, 3 digits", VALUES, () => { for (let at = 0; at < VALUES; at += 1) node.record(Math.max(values[at], 1)); }],
    ["Histogram.record, a double", VALUES, () => { for (let at = 0; at < VALUES; at += 1) histogram.record(values[at] / 1e9); }],
  ]);
}

function merge(values) {
  const recorder = new Recorder();
  const [hdrLeft, hdrRight] = [hdrOf(3), hdrOf(3)];
  let left;
  values.forEach((value, at) => {
    if (at === VALUES / 2) left = recorder.take();
    recorder.recordNanoseconds(value);
    (at < VALUES / 2 ? hdrLeft : hdrRight).recordValue(value);
  });
  const right = recorder.take();
  times("merge of a histogram of mixed values", [
    ["Histogram.merge", 200, repeat(200, () => left.merge(right))],
    ["hdr-histogram-js add, 3 digits", 10, repeat(10, () => hdrLeft.add(hdrRight))],
  ]);
  times("four quantiles", [
    ["quantile", 200, repeat(200, () => QUANTILES.forEach((q) => quantile(right, q)))],
    ["hdr-histogram-js, 3 digits", 10, repeat(10, () => QUANTILES.forEach((q) => hdrRight.getValueAtPercentile(100 * q)))],
  ]);
}

/** What a million records leave on the heap, and what each of a hundred holds. */
function memory(values) {
  const held = () => {
    global.gc();
    const { heapUsed, arrayBuffers } = process.memoryUsage();
    return heapUsed + arrayBuffers;
  };
  const recorder = new Recorder();
  for (let at = 0; at < VALUES; at += 1) recorder.recordNanoseconds(values[at]);
  global.gc();
  const before = process.memoryUsage().heapUsed;
  for (let turn = 0; turn < 8; turn += 1) for (let at = 0; at < VALUES; at += 1) recorder.recordNanoseconds(values[at]);
  console.log(`\nallocated by ${8 * VALUES} records: ${process.memoryUsage().heapUsed - before} bytes`);
  for (const [name, make] of [["Recorder", () => new Recorder()], ["hdr-histogram-js, 2 digits", () => hdrOf(2)], ["hdr-histogram-js, 3 digits", () => hdrOf(3)]]) {
    const empty = held();
    const all = Array.from({ length: 100 }, make);
    console.log(name.padEnd(38), String(Math.round((held() - empty) / all.length)).padStart(9), "bytes");
  }
}

console.log(`Node ${process.version}, ${cpus().length} CPUs, ${cpus()[0].model}`);
const { logNormal, mixed } = streams();
record("log-normal around 250 us", logNormal);
record("mixed: 2 us, 300 us, 40 ms, tiny", mixed);
merge(mixed);
memory(mixed);
