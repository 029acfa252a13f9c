/** Ogive for JavaScript: histograms, recorders, and an exporter that sends each sample exactly once. */
export { type Bin, binOf, binOfInteger, binOfLabel, labelOfBin, NAN_BIN, ZERO_BIN } from "./bin.js";
export { decode, decodeBase64, encode, encodeBase64, FormatError, type Read, type Repairs } from "./codec.js";
export { decodeHdr, decodeHdrBase64 } from "./hdr.js";
export { type Exact, Histogram } from "./histogram.js";
export { Exporter, type ExporterOptions, type Status } from "./exporter.js";
export { middleware } from "./express.js";
export { fastifyPlugin } from "./fastify.js";
export { type NodeOptions, observeNode, observePage, type PageOptions } from "./performance.js";
export { Recorder } from "./recorder.js";
export * from "./statistics.js";
export { clamped, compressedBelow, type ForeignBucket, fromBuckets, type Placement } from "./transform.js";
