/* HdrHistogram's forms against the vectors in the file that is given: hdr_test vectors/hdrhistogram/read.json */
#include <jansson.h>
#include <ogive_hist.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ogive_hist *read(const json_t *record, const char **error) {
  const json_t *hdr = json_object_get(record, "hdr");
  double unit = json_number_value(json_object_get(record, "unit"));
  return ogive_hist_decode_hdr_base64(json_string_value(hdr), json_string_length(hdr), unit, error);
}

static const char *checked(const json_t *record, bool is_refused) {
  static char text[1 << 16];
  const char *error = NULL;
  ogive_hist *hist = read(record, &error);
  if (hist == NULL) {
    const char *says = json_string_value(json_object_get(record, "says"));
    return is_refused && error != NULL && strstr(error, says == NULL ? "" : says) != NULL ? NULL : error;
  }
  size_t length = ogive_hist_encode_base64(hist, text, sizeof text);
  double sum;
  bool is_exact = ogive_hist_exact_sum(hist, &sum);
  ogive_hist_free(hist);
  if (is_refused) return "it was read";
  if (is_exact) return "the form has no sum";
  if (length >= sizeof text) return "it has more bins than the test has room for";
  return strcmp(text, json_string_value(json_object_get(record, "openhistogram"))) == 0 ? NULL : text;
}

int main(int count, char **arguments) {
  json_error_t error;
  json_t *file = count == 2 ? json_load_file(arguments[1], 0, &error) : NULL;
  if (file == NULL) {
    fprintf(stderr, "usage: hdr_test vectors/hdrhistogram/read.json\n");
    return 2;
  }
  int passed = 0, failed = 0;
  for (int refused = 0; refused < 2; refused++) {
    const json_t *list = json_object_get(file, refused ? "refused" : "records");
    for (size_t at = 0; at < json_array_size(list); at++) {
      const json_t *record = json_array_get(list, at);
      const char *why = checked(record, refused);
      if (why == NULL) {
        passed++;
        continue;
      }
      failed++;
      printf("%s: %s\n", json_string_value(json_object_get(record, "name")), why);
    }
  }
  json_decref(file);
  printf("c: %d passed, %d failed (HdrHistogram)\n", passed, failed);
  return failed > 0 || passed == 0;
}
