/* The OpenHistogram byte and base64 forms (docs/formats/openhistogram.md). */
#include "internal.h"

#include <stdlib.h>
#include <string.h>

static size_t width_of(uint64_t count) {
  size_t width = 1;
  while (count >>= 8) width++;
  return width;
}

size_t ogive_hist_encode(const ogive_hist *hist, uint8_t *bytes, size_t capacity) {
  size_t needed = 2;
  for (size_t at = 0; at < hist->length; at++) needed += 3 + width_of(hist->entries[at].count);
  if (needed > capacity) return needed;
  *bytes++ = (uint8_t)(hist->length >> 8);
  *bytes++ = (uint8_t)hist->length;
  for (size_t at = 0; at < hist->length; at++) {
    ogive_bin bin = ogive_bin_of_key(hist->entries[at].key);
    uint64_t count = hist->entries[at].count;
    size_t width = width_of(count);
    *bytes++ = (uint8_t)bin.val;
    *bytes++ = (uint8_t)bin.exp;
    *bytes++ = (uint8_t)(width - 1);
    for (size_t byte = 0; byte < width; byte++, count >>= 8) *bytes++ = (uint8_t)count;
  }
  return needed;
}

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t ogive_hist_encode_base64(const ogive_hist *hist, char *text, size_t capacity) {
  size_t length = ogive_hist_encode(hist, NULL, 0), needed = (length + 2) / 3 * 4;
  if (needed + 1 > capacity) return needed;
  uint8_t *bytes = calloc(length + 2, 1);
  if (bytes == NULL) return 0;
  ogive_hist_encode(hist, bytes, length);
  for (size_t at = 0; at < length; at += 3, text += 4) {
    uint32_t group = (uint32_t)bytes[at] << 16 | (uint32_t)bytes[at + 1] << 8 | bytes[at + 2];
    for (int digit = 0; digit < 4; digit++) text[digit] = ALPHABET[group >> (18 - 6 * digit) & 63];
    for (size_t digit = length - at + 1; digit < 4; digit++) text[digit] = '=';
  }
  *text = 0;
  free(bytes);
  return needed;
}

static ogive_hist *refused(ogive_hist *hist, const char **error, const char *why) {
  ogive_hist_free(hist);
  if (error != NULL) *error = why;
  return NULL;
}

ogive_hist *ogive_hist_decode(const uint8_t *bytes, size_t length, ogive_repairs *repairs, const char **error) {
  ogive_repairs ignored;
  if (repairs == NULL) repairs = &ignored;
  memset(repairs, 0, sizeof *repairs);
  if (length < 2) return refused(NULL, error, "the input ends inside the number of bins");
  size_t declared = (size_t)bytes[0] << 8 | bytes[1], offset = 2;
  if (declared > OGIVE_BINS_MAX) return refused(NULL, error, "more than 46082 bins are declared");
  ogive_hist *hist = ogive_hist_new();
  if (hist == NULL) return refused(NULL, error, "no memory");
  int last = OGIVE_KEY_NAN - 1;
  for (size_t read = 0; read < declared; read++) {
    if (offset == length) {
      repairs->missing_bins = declared - read;
      break;
    }
    if (length - offset < 3) return refused(hist, error, "the input ends inside a bin");
    ogive_bin bin = {(int8_t)bytes[offset], (int8_t)bytes[offset + 1]};
    size_t width = (size_t)bytes[offset + 2] + 1;
    if (width > 8) return refused(hist, error, "a count is wider than 8 bytes");
    if (length - offset - 3 < width) return refused(hist, error, "the input ends inside a count");
    uint64_t count = 0;
    for (size_t byte = width; byte-- > 0;) count = count << 8 | bytes[offset + 3 + byte];
    offset += 3 + width;
    if (count == 0) {
      repairs->empty_bins++;
      continue;
    }
    if (!ogive_bin_valid(bin)) {
      repairs->invalid_bins++;
      repairs->invalid_samples = ogive_saturating(repairs->invalid_samples, count);
      continue;
    }
    int key = ogive_key_of(bin);
    size_t before = hist->length;
    repairs->odd_zero_bins += bin.val == 0 && bin.exp != 0;
    repairs->wide_counts += width > width_of(count);
    repairs->unsorted_bins += key < last;
    last = key;
    if (!ogive_add(hist, key, count)) return refused(hist, error, "no memory");
    repairs->duplicate_bins += hist->length == before;
  }
  repairs->trailing_bytes = length - offset;
  return hist;
}

uint8_t *ogive_from_base64(const char *text, size_t length, size_t *filled, bool *loose, const char **why) {
  uint8_t *bytes = malloc(length / 4 * 3 + 3);
  if (bytes == NULL) {
    *why = "no memory";
    return NULL;
  }
  size_t digits = 0, padding = 0;
  bool spaced = false;
  uint32_t held = 0;
  *why = NULL;
  *filled = 0;
  for (size_t at = 0; at < length && *why == NULL; at++) {
    const char *digit = text[at] == 0 ? NULL : strchr(ALPHABET, text[at]);
    if (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
      spaced = true;
    } else if (text[at] == '=' && digits % 4 + padding < 4 && digits % 4 >= 2) {
      padding++;
    } else if (digit == NULL || padding > 0) {
      *why = "a character is not of base64";
    } else {
      held = held << 6 | (uint32_t)(digit - ALPHABET);
      if (++digits % 4 != 1) bytes[(*filled)++] = (uint8_t)(held >> (6 - 2 * ((digits - 1) % 4)));
    }
  }
  if (*why == NULL && digits % 4 == 1) *why = "the text is no whole number of bytes in base64";
  if (loose != NULL) *loose = spaced || padding < (4 - digits % 4) % 4;
  if (*why == NULL) return bytes;
  free(bytes);
  return NULL;
}

ogive_hist *ogive_hist_decode_base64(const char *text, size_t length, ogive_repairs *repairs, const char **error) {
  size_t filled;
  bool loose;
  const char *why;
  uint8_t *bytes = ogive_from_base64(text, length, &filled, &loose, &why);
  if (bytes == NULL) return refused(NULL, error, why);
  ogive_repairs found;
  ogive_hist *hist = ogive_hist_decode(bytes, filled, &found, error);
  free(bytes);
  if (hist == NULL) return NULL;
  if (found.trailing_bytes > 0) return refused(hist, error, "bytes are left behind the last bin");
  found.loose_base64 = loose;
  if (repairs != NULL) *repairs = found;
  return hist;
}
