/* HdrHistogram's encoding, version 2 (docs/formats/hdrhistogram.md). */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

#ifdef OGIVE_ZLIB
#include <zlib.h>
#endif

/* First bytes, without the word size, which has no meaning in version 2. */
#define PLAIN 0x1c849303u
#define COMPRESSED 0x1c849304u
#define COOKIE_MASK 0xffffff0fu
/* Those of other forms, masked as well: versions 1 and 0 with their compressed forms, and histograms of doubles. */
#define PLAIN_1 0x1c849301u
#define COMPRESSED_1 0x1c849302u
#define PLAIN_0 0x1c849308u
#define COMPRESSED_0 0x1c849309u
#define DOUBLES 0x0c72120eu
#define COMPRESSED_DOUBLES 0x0c72120fu

#define HEADER_BYTES 40
/* 16 MiB: all 835,584 counts that five digits can have, at nine bytes, twice. */
#define PLAIN_BYTES_MAX ((size_t)16 << 20)

/* Bins a power of two, as a binary logarithm, by significant decimal digits: 2 * 10^digits steps, rounded up to a power of
 * two, half of them. */
static const int GROUPINGS[] = {0, 4, 7, 10, 14, 17};

typedef struct {
  int grouping, shift;
  double unit;
} grid;

static uint64_t big_endian(const uint8_t *bytes, int length) {
  uint64_t number = 0;
  for (int at = 0; at < length; at++) number = number << 8 | bytes[at];
  return number;
}

static uint32_t cookie_of(const uint8_t *bytes, size_t length) {
  return length < 4 ? 0 : (uint32_t)big_endian(bytes, 4) & COOKIE_MASK;
}

static uint64_t last_index(grid of) {
  int exponent = 63 - of.shift - of.grouping;
  return ((uint64_t)exponent << of.grouping) + ((uint64_t)2 << of.grouping) - 1;
}

static double power_of_two(int exponent) {
  double power = 1;
  while (exponent-- > 0) power *= 2;
  return power;
}

/* The middle of a bin, rounded down to a whole unit, as HdrHistogram has it. Exact but for the unit. */
static double middle(grid of, uint64_t index) {
  uint64_t rows = index >> of.grouping;
  int exponent = rows > 1 ? (int)rows - 1 : 0;
  double width = power_of_two(exponent + of.shift);
  double units = (double)(index - ((uint64_t)exponent << of.grouping)) * width + (width > 1 ? width / 2 : 0);
  /* Of a unit that is one n-th: 5 units of 1e-3 are 0.005. */
  double parts = 1 / of.unit;
  /* From 2^52 on doubles are whole. */
  if (parts < 4503599627370496.0) parts = (double)(int64_t)(parts + 0.5);
  return parts > 1 && 1 / parts == of.unit ? units / parts : units * of.unit;
}

/* A zig-zag LEB128 number of at most nine bytes, the ninth with eight bits. */
static bool take_number(const uint8_t **at, const uint8_t *end, int64_t *number) {
  uint64_t value = 0;
  for (int shift = 0; *at < end; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(shift == 56 ? byte : byte & 0x7f) << shift;
    if (shift == 56 || byte < 0x80) {
      *number = (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
      return true;
    }
  }
  return false;
}

/* Why a form with these first bytes is not read. */
static const char *stranger(uint32_t cookie) {
  switch (cookie) {
  case PLAIN_0:
  case PLAIN_1:
  case COMPRESSED_0:
  case COMPRESSED_1:
    return "the form is of version 0 or 1, and only version 2 is read: encode it with a current HdrHistogram, or import its log with "
           "ogive import hdr-log";
  case DOUBLES:
  case COMPRESSED_DOUBLES:
    return "the form is a histogram of doubles, and only those of integers are read: import its log with ogive import hdr-log";
  default:
    return "the first bytes are not those of an HdrHistogram of version 2";
  }
}

static const char *header(const uint8_t *bytes, size_t length, double unit, grid *of) {
  uint32_t cookie = cookie_of(bytes, length);
  if (cookie != PLAIN) return stranger(cookie);
  if (length < HEADER_BYTES) return "the input ends inside the header";
  uint32_t digits = (uint32_t)big_endian(bytes + 12, 4);
  uint64_t least = big_endian(bytes + 16, 8);
  if (digits > 5) return "there are more than five significant digits";
  if (least == 0 || least >> 41 != 0) return "the least discernible value is outside 1..2^41";
  of->grouping = GROUPINGS[digits];
  of->unit = unit;
  for (of->shift = 0; least >> (of->shift + 1) != 0;) of->shift++;
  return of->unit >= 1e-100 && of->unit <= 1e100 ? NULL : "the unit is outside 1e-100..1e100";
}

static const char *counts(const uint8_t *at, const uint8_t *end, grid of, ogive_hist *hist) {
  uint64_t index = 0, last = last_index(of);
  while (at < end) {
    int64_t count;
    if (!take_number(&at, end, &count)) return "the input ends inside a count";
    if (count < 0) {
      index = ogive_saturating(index, -(uint64_t)count);
      continue;
    }
    if (count > 0) {
      if (index > last) return "there are more counts than bins";
      ogive_bin bin = index == 0 ? OGIVE_BIN_ZERO : ogive_bin_of(middle(of, index));
      if (!ogive_add(hist, ogive_key_of(bin), (uint64_t)count)) return "no memory";
    }
    index = ogive_saturating(index, 1);
  }
  return NULL;
}

static ogive_hist *decoded(const uint8_t *bytes, size_t length, double unit, const char **why) {
  grid of;
  *why = header(bytes, length, unit, &of);
  if (*why != NULL) return NULL;
  uint64_t payload = big_endian(bytes + 4, 4);
  if (payload > length - HEADER_BYTES) {
    *why = "the input ends inside the counts";
    return NULL;
  }
  ogive_hist *hist = ogive_hist_new();
  *why = hist == NULL ? "no memory" : counts(bytes + HEADER_BYTES, bytes + HEADER_BYTES + payload, of, hist);
  if (*why == NULL) return hist;
  ogive_hist_free(hist);
  return NULL;
}

#ifdef OGIVE_ZLIB
/* Unfolds into memory that grows with what comes. NULL, and why, when that is no zlib or too much. */
static uint8_t *unfold(z_stream *stream, size_t *filled, const char **why) {
  uint8_t *plain = NULL;
  size_t capacity = 0;
  for (int status = Z_OK; status == Z_OK;) {
    if (*filled == capacity) {
      capacity = capacity == 0 ? 4096 : capacity * 2;
      uint8_t *grown = realloc(plain, capacity);
      if (grown == NULL) {
        *why = "no memory";
        break;
      }
      plain = grown;
    }
    stream->next_out = plain + *filled;
    stream->avail_out = (uInt)(capacity - *filled);
    status = inflate(stream, Z_NO_FLUSH);
    *filled = capacity - stream->avail_out;
    if (*filled > PLAIN_BYTES_MAX) {
      *why = "the compressed form unfolds to more than 16 MiB";
      break;
    }
    if (status == Z_STREAM_END) return plain;
    if (status != Z_OK) *why = "the compressed form is not zlib";
  }
  free(plain);
  return NULL;
}

static ogive_hist *decode_compressed(const uint8_t *bytes, size_t length, double unit, const char **why) {
  uint64_t folded = length < 8 ? 0 : big_endian(bytes + 4, 4);
  if (length < 8 || folded > length - 8) {
    *why = "the input ends inside the compressed form";
    return NULL;
  }
  z_stream stream;
  memset(&stream, 0, sizeof stream);
  /* zlib's own signature: it reads and does not write. */
  stream.next_in = (Bytef *)(uintptr_t)(bytes + 8);
  stream.avail_in = (uInt)folded;
  if (inflateInit(&stream) != Z_OK) {
    *why = "no memory";
    return NULL;
  }
  size_t filled = 0;
  uint8_t *plain = unfold(&stream, &filled, why);
  inflateEnd(&stream);
  if (plain == NULL) return NULL;
  ogive_hist *hist = decoded(plain, filled, unit, why);
  free(plain);
  return hist;
}
#else
static ogive_hist *decode_compressed(const uint8_t *bytes, size_t length, double unit, const char **why) {
  (void)bytes, (void)length, (void)unit;
  *why = "the form is compressed and the library was built without zlib: install it and build with -DOGIVE_ZLIB=ON";
  return NULL;
}
#endif

ogive_hist *ogive_hist_decode_hdr(const uint8_t *bytes, size_t length, double unit, const char **error) {
  const char *why = NULL;
  ogive_hist *hist = cookie_of(bytes, length) == COMPRESSED ? decode_compressed(bytes, length, unit, &why)
                                                            : decoded(bytes, length, unit, &why);
  if (hist == NULL && error != NULL) *error = why;
  return hist;
}

ogive_hist *ogive_hist_decode_hdr_base64(const char *text, size_t length, double unit, const char **error) {
  size_t filled;
  const char *why = NULL;
  uint8_t *bytes = ogive_from_base64(text, length, &filled, NULL, &why);
  ogive_hist *hist = bytes == NULL ? NULL : ogive_hist_decode_hdr(bytes, filled, unit, &why);
  free(bytes);
  if (hist == NULL && error != NULL) *error = why;
  return hist;
}
