// What hdr-histogram-js writes, and what is broken of it.

import assert from "node:assert/strict";
import { test } from "node:test";
import { inflateSync } from "node:zlib";

import * as hdr from "hdr-histogram-js";
import * as ogive from "ogive";

/** A histogram of theirs, encoded, and what is to be read of it. */
function written(least, digits, values) {
  const theirs = hdr.build({ lowestDiscernibleValue: least, highestTrackableValue: 3.6e12, numberOfSignificantValueDigits: digits, bitBucketSize: 64 });
  const expected = new ogive.Histogram();
  let state = 7;
  for (let at = 0; at < values; at += 1) {
    state = (state * 48271) % 2147483647;
    const value = least + Math.floor((state * 1000) / 2 ** (at % 40));
    theirs.recordValueWithCount(value, 3);
    expected.record(theirs.medianEquivalentValue(value) / 1e9, 3);
  }
  return { text: hdr.encodeIntoCompressedBase64(theirs), expected };
}

test("what hdr-histogram-js writes is read", async () => {
  for (const digits of [1, 2, 3, 4, 5]) {
    for (const least of [1, 1000]) {
      const { text, expected } = written(least, digits, 2000);
      const read = await ogive.decodeHdrBase64(text, 1e-9);
      assert.equal(read.count, 6000n);
      assert.equal(ogive.encodeBase64(read), ogive.encodeBase64(expected), `${digits} digits from ${least}`);
    }
  }
});

test("a form that is cut is refused, one with a flipped bit is read or refused", { timeout: 120_000 }, async () => {
  const outcome = (bytes) => ogive.decodeHdr(bytes, 1e-9).then(() => "read", (error) => (error instanceof ogive.FormatError ? "refused" : String(error)));
  const compressed = Uint8Array.from(Buffer.from(written(1, 2, 30).text, "base64"));
  for (const form of [Uint8Array.from(inflateSync(compressed.subarray(8))), compressed]) {
    assert.equal(await outcome(form), "read");
    for (let length = 0; length < form.length; length += 1) assert.equal(await outcome(form.subarray(0, length)), "refused", `${length} bytes`);
    for (let bit = 0; bit < 8 * form.length; bit += 1) {
      const broken = form.slice();
      broken[bit >> 3] ^= 1 << (bit & 7);
      assert.match(await outcome(broken), /^(read|refused)$/, `bit ${bit}`);
    }
  }
});

test("bytes behind the zlib stream are left alone or refused, as the platform's DecompressionStream has it", { timeout: 20_000 }, async () => {
  const { text, expected } = written(1, 2, 30);
  const bytes = Uint8Array.from([...Buffer.from(text, "base64"), 1, 2, 3, 4]);
  new DataView(bytes.buffer).setUint32(4, bytes.length - 8);
  const found = await ogive.decodeHdr(bytes, 1e-9).then(ogive.encodeBase64, (error) => error instanceof ogive.FormatError);
  assert.ok(found === true || found === ogive.encodeBase64(expected), String(found));
});
