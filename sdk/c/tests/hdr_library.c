/* What HdrHistogram_c writes, and what is broken of it. */
#include <hdr_histogram.h>
#include <hdr_histogram_log.h>
#include <ogive_hist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition, ...) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: ", __FILE__, __LINE__); \
      fprintf(stderr, __VA_ARGS__); \
      fputc('\n', stderr); \
      exit(1); \
    } \
  } while (0)

/* A histogram of theirs in base64, and what is to be read of it. */
static char *written(int64_t least, int digits, int values, ogive_hist *expected) {
  struct hdr_histogram *theirs;
  CHECK(hdr_init(least, 3600000000000, digits, &theirs) == 0, "hdr_init");
  uint64_t state = 7;
  for (int at = 0; at < values; at++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    hdr_record_values(theirs, least + (int64_t)((state >> 23) % 3000000000000u >> at % 40), 3);
  }
  struct hdr_iter iter;
  hdr_iter_recorded_init(&iter, theirs);
  while (hdr_iter_next(&iter))
    ogive_hist_record(expected, (double)hdr_median_equivalent_value(theirs, iter.value) / 1e9, (uint64_t)iter.count);
  char *text;
  CHECK(hdr_log_encode(theirs, &text) == 0, "hdr_log_encode");
  hdr_close(theirs);
  return text;
}

static void is_read(int64_t least, int digits) {
  ogive_hist *expected = ogive_hist_new();
  char *text = written(least, digits, 2000, expected);
  const char *error = NULL;
  ogive_hist *read = ogive_hist_decode_hdr_base64(text, strlen(text), 1e-9, &error);
  CHECK(read != NULL, "%d digits: %s", digits, error);
  static char found[1 << 16], wanted[1 << 16];
  ogive_hist_encode_base64(read, found, sizeof found);
  ogive_hist_encode_base64(expected, wanted, sizeof wanted);
  CHECK(ogive_hist_count(read) == 6000 && strcmp(found, wanted) == 0, "%d digits: found %s, expected %s", digits, found, wanted);
  ogive_hist_free(read);
  ogive_hist_free(expected);
  free(text);
}

/* Cuts and flips of the text, which is six bits a character: bytes of exactly that length, so that a sanitizer sees one too many. */
static void is_refused_or_read(void) {
  static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  ogive_hist *expected = ogive_hist_new();
  char *text = written(1, 2, 30, expected);
  size_t length = strcspn(text, "=");
  for (size_t cut = 0; cut < length; cut++) {
    char *part = malloc(cut + 1);
    memcpy(part, text, cut);
    ogive_hist *read = ogive_hist_decode_hdr_base64(part, cut, 1e-9, NULL);
    CHECK(read == NULL, "read, with %zu characters of %zu", cut, length);
    free(part);
  }
  for (size_t bit = 0; bit < 6 * length; bit++) {
    char *broken = strdup(text);
    broken[bit / 6] = ALPHABET[(strchr(ALPHABET, text[bit / 6]) - ALPHABET) ^ (1 << bit % 6)];
    const char *error = NULL;
    ogive_hist *read = ogive_hist_decode_hdr_base64(broken, strlen(broken), 1e-9, &error);
    CHECK((read == NULL) == (error != NULL), "bit %zu", bit);
    ogive_hist_free(read);
    free(broken);
  }
  ogive_hist_free(expected);
  free(text);
}

/* The same of a plain form. */
static void plain_is_refused_or_read(void) {
  static const uint8_t FORM[] = {0x1c, 0x84, 0x93, 0x13, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1,
      0, 0, 0, 0, 0, 0, 3, 0xe8, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 2, 4, 0xc9, 0x0f, 2};
  for (size_t cut = 0; cut <= sizeof FORM; cut++) {
    uint8_t *part = malloc(cut + 1);
    memcpy(part, FORM, cut);
    part = realloc(part, cut > 0 ? cut : 1);
    const char *error = NULL;
    ogive_hist *read = ogive_hist_decode_hdr(part, cut, 1, &error);
    CHECK((read != NULL) == (cut == sizeof FORM), "%zu bytes: %s", cut, error == NULL ? "read" : error);
    ogive_hist_free(read);
    free(part);
  }
  for (size_t bit = 0; bit < 8 * sizeof FORM; bit++) {
    uint8_t *broken = malloc(sizeof FORM);
    memcpy(broken, FORM, sizeof FORM);
    broken[bit / 8] ^= (uint8_t)(1 << bit % 8);
    const char *error = NULL;
    ogive_hist *read = ogive_hist_decode_hdr(broken, sizeof FORM, 1, &error);
    CHECK((read == NULL) == (error != NULL), "bit %zu", bit);
    ogive_hist_free(read);
    free(broken);
  }
}

int main(void) {
  for (int digits = 1; digits <= 5; digits++) {
    is_read(1, digits);
    is_read(1000, digits);
  }
  is_refused_or_read();
  plain_is_refused_or_read();
  printf("HdrHistogram_c: fine\n");
  return 0;
}
