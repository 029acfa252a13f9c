/* The exporter against a real server, which OGIVE_BIN names: killed in between, away, and not a server at all. */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <curl/curl.h>
#include <jansson.h>
#include <ogive_export.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);         \
      kill_server();                                                          \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* Turns of 10 ms: two minutes for what takes a moment on an idle machine. */
enum { EACH = 40000, WRITERS = 3, TURNS_MAX = 12000 };

static pid_t server;
static char address[64], data[] = "/tmp/ogive-export-XXXXXX";

static void kill_server(void) {
  if (server > 0) {
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
  }
  server = 0;
}

static void sleep_ms(long ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&time, NULL);
}

static void choose_address(void) {
  struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof where;
  int descriptor = socket(AF_INET, SOCK_STREAM, 0);
  CHECK(bind(descriptor, (struct sockaddr *)&where, sizeof where) == 0);
  CHECK(getsockname(descriptor, (struct sockaddr *)&where, &length) == 0);
  snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(where.sin_port));
  close(descriptor);
}

typedef struct {
  char text[4096];
  size_t length;
} body;

static size_t keep(char *bytes, size_t size, size_t count, void *context) {
  body *to = context;
  size_t room = sizeof to->text - 1 - to->length, length = size * count < room ? size * count : room;
  memcpy(to->text + to->length, bytes, length);
  to->text[to->length += length] = 0;
  return size * count;
}

static long get(const char *path, body *answer) {
  char url[1024];
  long status = 0;
  CURL *curl = curl_easy_init();
  snprintf(url, sizeof url, "http://%s%s", address, path);
  answer->length = 0;
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
  if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_cleanup(curl);
  return status;
}

static void start_server(void) {
  const char *binary = getenv("OGIVE_BIN");
  body answer;
  server = fork();
  if (server == 0) {
    execl(binary, binary, "serve", "--data", data, "--listen", address, (char *)NULL);
    _exit(127);
  }
  while (get("/-/ready", &answer) != 200) {
    CHECK(waitpid(server, NULL, WNOHANG) == 0);
    sleep_ms(20);
  }
}

/* The one number that an expression gives, a little in the future: the last cell ends after its shutdown. */
static double query(const char *expression) {
  char path[1024], *text = curl_easy_escape(NULL, expression, 0);
  body answer;
  double value;
  snprintf(path, sizeof path, "/api/v1/query?time=%lld&query=%s", (long long)time(NULL) + 2, text);
  curl_free(text);
  CHECK(get(path, &answer) == 200);
  json_t *all = json_loads(answer.text, 0, NULL);
  json_t *result = json_object_get(json_object_get(all, "data"), "result");
  if (json_array_size(result) != 1) fprintf(stderr, "%s: %s\n", expression, answer.text);
  CHECK(json_array_size(result) == 1);
  value = atof(json_string_value(json_array_get(json_object_get(json_array_get(result, 0), "value"), 1)));
  json_decref(all);
  return value;
}

static void *write_shared(void *recorder) {
  for (uint64_t at = 1; at <= EACH; at++) {
    ogive_recorder_record_shared(recorder, at);
    if (at % 100 == 0) sleep_ms(1);
  }
  return NULL;
}

static double seventeen(void *context) { return *(double *)context; }

static bool is_balanced(const ogive_export_status *s) {
  return s->taken == s->acknowledged + s->waiting + s->rejected + s->dropped_full + s->dropped_refused + s->dropped_shutdown + s->dropped_memory;
}

static void every_sample_is_stored_once_across_a_kill(void) {
  const char *all[] = {"service", "orders", NULL}, *labels[] = {"route", "/login", NULL}, *error;
  const char *odd[] = {"route", NULL};
  ogive_export_options options = {.labels = all, .interval_ms = 100};
  ogive_export_status status;
  char url[80];
  double length = 17, sum, expected = (double)WRITERS * EACH * (EACH + 1) / 2 * 1e-9;
  pthread_t writers[WRITERS];
  choose_address();
  start_server();
  snprintf(url, sizeof url, "http://%s", address);
  ogive_exporter *exporter = ogive_exporter_start(url, &options, &error);
  CHECK(exporter != NULL && error == NULL);
  ogive_recorder *logins = ogive_exporter_recorder(exporter, "login_seconds", labels, &error);
  CHECK(logins != NULL);
  CHECK(ogive_exporter_recorder(exporter, "login_seconds", labels, &error) == NULL && strstr(error, "exists") != NULL);
  CHECK(ogive_exporter_recorder(exporter, "x_seconds", odd, &error) == NULL && strstr(error, "pairs") != NULL);
  CHECK(ogive_exporter_gauge(exporter, "queue_length", NULL, seventeen, &length, &error));
  CHECK(ogive_exporter_counter(exporter, "served_total", labels, seventeen, &length, &error));
  for (int at = 0; at < WRITERS; at++) pthread_create(&writers[at], NULL, write_shared, logins);
  do {
    sleep_ms(1);
    ogive_exporter_status(exporter, &status);
  } while (status.acknowledged < 6);
  kill_server();
  for (int at = 0; at < WRITERS; at++) pthread_join(writers[at], NULL);
  start_server();
  CHECK(ogive_exporter_shutdown(exporter, 120000, &status));
  CHECK(is_balanced(&status) && status.taken == status.acknowledged);
  CHECK(query("histogram_count(sum_over_time(login_seconds{service=\"orders\",route=\"/login\"}[10m]))") == (double)WRITERS * EACH);
  sum = query("histogram_sum(sum_over_time(login_seconds[10m]))");
  CHECK(sum > expected * 0.999999999 && sum < expected * 1.000000001);
  CHECK(query("queue_length") == 17 && query("served_total{route=\"/login\"}") == 17);
  kill_server();
}

static void remember(void *context, const char *message) { snprintf(context, 200, "%s", message); }

static void what_waits_is_bounded_and_counted(void) {
  char message[200] = "";
  double one = 1;
  const char *error;
  ogive_export_options options = {.interval_ms = 100, .keep_bytes = 2000, .on_error = remember, .context = message};
  ogive_export_status status;
  CHECK(ogive_exporter_start("127.0.0.1:1", &options, &error) == NULL && strstr(error, "http://") != NULL);
  ogive_exporter *exporter = ogive_exporter_start("http://127.0.0.1:1/", &options, &error);
  CHECK(exporter != NULL && ogive_exporter_gauge(exporter, "x", NULL, seventeen, &one, &error));
  int turns = 0;
  do {
    sleep_ms(10);
    ogive_exporter_status(exporter, &status);
    CHECK(is_balanced(&status) && status.waiting_bytes <= 2000);
    CHECK(++turns < TURNS_MAX);
  } while (status.dropped_full == 0 || message[0] == 0);
  CHECK(!ogive_exporter_shutdown(exporter, 0, &status));
  CHECK(is_balanced(&status) && status.dropped_shutdown > 0 && status.acknowledged == 0 && message[0] != 0);
}

/* Something that answers 200 to everything: its answer acknowledges nothing. */
static void *answer_ok(void *listener) {
  static const char OK[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
  char request[4096];
  for (;;) {
    int peer = accept(*(int *)listener, NULL, NULL);
    if (peer < 0) return NULL;
    if (read(peer, request, sizeof request) > 0 && write(peer, OK, sizeof OK - 1) < 0) perror("write");
    /* To its end: a connection that is closed with bytes unread is reset, and its answer may be lost. */
    shutdown(peer, SHUT_WR);
    while (read(peer, request, sizeof request) > 0) {
    }
    close(peer);
  }
}

static void another_server_acknowledges_nothing(void) {
  struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof where;
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  char url[80], message[200] = "";
  double one = 1;
  const char *error;
  pthread_t thread;
  ogive_export_options options = {.interval_ms = 100, .on_error = remember, .context = message};
  ogive_export_status status;
  CHECK(bind(listener, (struct sockaddr *)&where, sizeof where) == 0 && listen(listener, 8) == 0);
  getsockname(listener, (struct sockaddr *)&where, &length);
  snprintf(url, sizeof url, "http://127.0.0.1:%u", ntohs(where.sin_port));
  pthread_create(&thread, NULL, answer_ok, &listener);
  ogive_exporter *exporter = ogive_exporter_start(url, &options, &error);
  CHECK(exporter != NULL && ogive_exporter_gauge(exporter, "x", NULL, seventeen, &one, &error));
  int turns = 0;
  do {
    sleep_ms(10);
    ogive_exporter_status(exporter, &status);
    CHECK(++turns < TURNS_MAX);
  } while (status.taken < 3 || message[0] == 0);
  CHECK(!ogive_exporter_shutdown(exporter, 200, &status));
  CHECK(status.acknowledged == 0 && status.dropped_shutdown == status.taken && strstr(message, "Ogive") != NULL);
  shutdown(listener, SHUT_RDWR);
  pthread_join(thread, NULL);
  close(listener);
}

int main(void) {
  if (getenv("OGIVE_BIN") == NULL) {
    fprintf(stderr, "exporter_test: OGIVE_BIN names no ogive binary\n");
    return 1;
  }
  CHECK(mkdtemp(data) != NULL);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  another_server_acknowledges_nothing();
  what_waits_is_bounded_and_counted();
  every_sample_is_stored_once_across_a_kill();
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", data);
  return system(command) != 0;
}
