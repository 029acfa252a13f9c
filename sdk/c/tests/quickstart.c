/* Times a thousand sleeps of a millisecond and sends them: quickstart http://127.0.0.1:6448 */
#define _POSIX_C_SOURCE 200809L
#include <ogive_export.h>
#include <stdio.h>
#include <time.h>

static uint64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

int main(int count, char **words) {
  const char *labels[] = {"service", "quickstart", NULL}, *error;
  ogive_export_options options = {.labels = labels};
  ogive_export_status status;
  struct timespec nap = {0, 1000000};
  ogive_exporter *exporter = ogive_exporter_start(count > 1 ? words[1] : "http://127.0.0.1:6448", &options, &error);
  ogive_recorder *naps = exporter == NULL ? NULL : ogive_exporter_recorder(exporter, "nap_seconds", NULL, &error);
  if (naps == NULL) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  for (int at = 0; at < 1000; at++) {
    uint64_t start = now();
    nanosleep(&nap, NULL);
    ogive_recorder_record(naps, now() - start);
  }
  ogive_exporter_shutdown(exporter, 1000, &status);
  printf("%llu of %llu cells acknowledged\n", (unsigned long long)status.acknowledged, (unsigned long long)status.taken);
  return 0;
}
