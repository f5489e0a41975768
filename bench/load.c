// Load on an OpenAI-shaped endpoint over keep-alive connections, one blocking thread each. Prints one JSON line; times in us.
//
//   load PORT MODE MODEL CONNECTIONS SECONDS [RATE]
//
// MODE chat | stream | speech. RATE 0 = closed loop (each connection asks again at once); else requests a second over all
// connections, each timed from the moment it was due. "first" is the time to the first body byte (stream: first token),
// "relay" the age of each streamed token when it arrives (its text holds the time it was written).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { double *v; size_t n, room; } Samples;
typedef struct { Samples whole, first, relay; long good, bad; } Tally;

static int port, connections;
static double rate;
static long long begin_ns, measure_ns, end_ns;
static char request[8192];
static size_t request_size;
static int streaming;
static atomic_long tickets;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
static void add(Samples *s, double us) {
  if (s->n == s->room) s->v = realloc(s->v, sizeof(double) * (s->room = s->room ? s->room * 2 : 4096));
  s->v[s->n++] = us;
}
static int dial(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd, (void *)&at, sizeof at)) { close(fd); return -1; }
  return fd;
}
// One request; returns the status, 0 when the connection broke. Times go to `t` when `counted`.
static int ask(int fd, long long due, Tally *t, int counted) {
  static __thread char in[1 << 18];
  size_t have = 0, scanned = 0;
  char *body = NULL;
  long length = -1;
  int first = 0;
  if (write(fd, request, request_size) != (ssize_t)request_size) return 0;
  for (;;) {
    ssize_t n = read(fd, in + have, sizeof in - have - 1);
    long long at = now_ns();
    if (n <= 0) return 0;
    have += n;
    in[have] = 0;
    if (!body) {
      if (!(body = memmem(in, have, "\r\n\r\n", 4))) continue;
      body += 4;
      char *p = strcasestr(in, "\r\ncontent-length:");
      length = p && p < body ? strtol(p + 17, NULL, 10) : -1;
      scanned = body - in;
    }
    if (streaming) {
      char *token;
      while ((token = memmem(in + scanned, have - scanned, "\"T", 2)) && token + 22 < in + have) {
        if (counted) add(&t->relay, (at - strtoll(token + 2, NULL, 10)) / 1e3);
        if (!first && counted) add(&t->first, (at - due) / 1e3);
        first = 1;
        scanned = token + 21 - in;
      }
    } else if (!first && in + have > body) {
      first = 1;
      if (counted) add(&t->first, (at - due) / 1e3);
    }
    int whole = length >= 0 ? in + have >= body + length : have >= 5 && !memcmp(in + have - 5, "0\r\n\r\n", 5);
    if (!whole) {
      if (have > sizeof in - 70000) { memmove(body, in + have - 64, 64); have = body - in + 64; scanned = body - in; }
      continue;
    }
    if (counted) add(&t->whole, (at - due) / 1e3);
    return atoi(in + 9);
  }
}
static void *worker(void *arg) {
  Tally *t = arg;
  int fd = dial();
  for (;;) {
    long long due = now_ns();
    if (rate > 0) {
      due = begin_ns + (long long)(atomic_fetch_add(&tickets, 1) * (1e9 / rate));
      struct timespec until = {due / 1000000000, due % 1000000000};
      if (due >= end_ns) break;
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    }
    if (due >= end_ns) break;
    int counted = due >= measure_ns, status = fd < 0 ? 0 : ask(fd, due, t, counted);
    if (!status) { if (fd >= 0) close(fd); fd = dial(); }
    if (counted) { if (status == 200) t->good++; else t->bad++; }
  }
  if (fd >= 0) close(fd);
  return NULL;
}
static int ascending(const void *a, const void *b) {
  double x = *(double *)a, y = *(double *)b;
  return x < y ? -1 : x > y;
}
static void report(const char *name, Tally *all, size_t offset) {
  Samples sum = {0};
  for (int i = 0; i < connections; i++) {
    Samples *s = (Samples *)((char *)&all[i] + offset);
    for (size_t j = 0; j < s->n; j++) add(&sum, s->v[j]);
  }
  if (!sum.n) return;
  qsort(sum.v, sum.n, sizeof(double), ascending);
  printf(",\"%s\":{\"p50\":%.1f,\"p95\":%.1f,\"p99\":%.1f,\"max\":%.1f}", name, sum.v[sum.n / 2], sum.v[sum.n * 95 / 100], sum.v[sum.n * 99 / 100], sum.v[sum.n - 1]);
}
int main(int argc, char **argv) {
  if (argc < 6) return fprintf(stderr, "usage: load PORT MODE MODEL CONNECTIONS SECONDS [RATE]\n"), 2;
  const char *mode = argv[2], *model = argv[3];
  char body[2048];
  int speech = !strcmp(mode, "speech");
  port = atoi(argv[1]), connections = atoi(argv[4]), rate = argc > 6 ? atof(argv[6]) : 0;
  streaming = !strcmp(mode, "stream");
  if (speech) snprintf(body, sizeof body, "{\"model\":\"%s\",\"voice\":\"alloy\",\"response_format\":\"pcm\",\"input\":\"It will stay dry until nine.\"}", model);
  else snprintf(body, sizeof body, "{\"model\":\"%s\",%s\"messages\":[{\"role\":\"system\",\"content\":\"You answer callers in one short spoken sentence, without lists and without abbreviations.\"},"
                "{\"role\":\"user\",\"content\":\"Will it rain this evening by the river, and should I take the umbrella with me or leave it?\"}],\"temperature\":0.5,\"max_tokens\":100}",
                model, streaming ? "\"stream\":true,\"stream_options\":{\"include_usage\":true}," : "");
  request_size = snprintf(request, sizeof request, "POST /v1/%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: application/json\r\nAuthorization: Bearer bench-key-000000000000\r\n"
                          "User-Agent: load/1\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", speech ? "audio/speech" : "chat/completions", port, strlen(body), body);
  Tally *all = calloc(connections, sizeof *all);
  pthread_t *threads = calloc(connections, sizeof *threads);
  begin_ns = now_ns(), measure_ns = begin_ns + 1000000000LL, end_ns = measure_ns + (long long)(atof(argv[5]) * 1e9);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 1 << 20);
  for (int i = 0; i < connections; i++) pthread_create(&threads[i], &small, worker, &all[i]);
  for (int i = 0; i < connections; i++) pthread_join(threads[i], NULL);
  long good = 0, bad = 0;
  for (int i = 0; i < connections; i++) good += all[i].good, bad += all[i].bad;
  printf("{\"mode\":\"%s\",\"connections\":%d,\"rate\":%.0f,\"good\":%ld,\"bad\":%ld,\"per_s\":%.1f", mode, connections, rate, good, bad, good / atof(argv[5]));
  report("whole", all, offsetof(Tally, whole));
  report("first", all, offsetof(Tally, first));
  report("relay", all, offsetof(Tally, relay));
  printf("}\n");
}
