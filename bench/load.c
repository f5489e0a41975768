// Load on an OpenAI-shaped endpoint over keep-alive connections, all looked after by one thread. Prints one JSON line; times in us.
//
//   load PORT MODE MODEL CONNECTIONS SECONDS [RATE [POLL [KEY [PAUSE]]]]
//
// MODE chat | stream | speech | health (GET /health). RATE 0 = closed loop (each connection asks again at once); else requests a second over all
// connections, each timed from the moment it was due. "first" is the time to the first body byte (stream: first token),
// "relay" the age of each streamed token when it arrives (its text holds the time it was written), "shed" the time of an
// answer with 429 or 503, which is not in the others, "gap" the time between two requests that begin one after the other.
// Nothing of the first second is counted. POLL: see peer.h. PAUSE: in a closed loop, each connection waits a random time below
// so many us before it asks again.
#include "peer.h"

enum { ROOM = 1 << 18 };
typedef struct { double *v; size_t n, room; } Samples;
// One connection; `due` is when its request was, `busy` that it waits for the answer, `body` where that begins.
typedef struct {
  int fd, busy, counted, first;
  long long due, pause_until;
  size_t have, scanned, body;
  long length;
  char in[ROOM];
} Conn;

static int port, polling, streaming;
static long pause_us;
static long good, bad, refused;
static Samples whole, first, relay, shed, gap;
static char request[8192];
static size_t request_size;

static void add(Samples *s, double us) {
  if (s->n == s->room) s->v = realloc(s->v, sizeof(double) * (s->room = s->room ? s->room * 2 : 4096));
  s->v[s->n++] = us;
}
static int dial(Conn *c) {
  struct sockaddr_in at = loopback(port);
  c->busy = 0;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(c->fd, (void *)&at, sizeof at)) { close(c->fd); return c->fd = -1; }
  watch(polling, c->fd, c);
  return 0;
}

static void ended(Conn *c, int status) {
  if (!status) {
    if (c->fd >= 0) close(c->fd);
    dial(c);
  }
  c->busy = 0;
  if (!c->counted) return;
  if (status == 200) good++;
  else if (status == 429 || status == 503) refused++;
  else bad++;
}

static void ask(Conn *c, long long due, int counted) {
  static long long before;
  long long now = now_ns();
  if (counted && before) add(&gap, (now - before) / 1e3);
  before = now;
  c->due = due, c->counted = counted, c->busy = 1, c->first = 0;
  c->have = c->scanned = c->body = 0;
  if (c->fd < 0 || put(c->fd, request, request_size)) ended(c, 0);
}

static void note_tokens(Conn *c, long long at) {
  char *token;
  while ((token = memmem(c->in + c->scanned, c->have - c->scanned, "\"T", 2)) && token + 22 < c->in + c->have) {
    if (c->counted) add(&relay, (at - strtoll(token + 2, NULL, 10)) / 1e3);
    if (!c->first && c->counted) add(&first, (at - c->due) / 1e3);
    c->first = 1;
    c->scanned = token + 21 - c->in;
  }
}

// Read what has come of an answer.
static void hear(Conn *c) {
  ssize_t n = recv(c->fd, c->in + c->have, ROOM - c->have - 1, 0);
  long long at = now_ns();
  if (n < 0 && errno == EAGAIN) return;
  if (!c->busy) c->counted = 0;  // closed between two requests
  if (n <= 0 || !c->busy) { ended(c, 0); return; }
  c->have += n;
  c->in[c->have] = 0;
  if (!c->body) {
    char *end = memmem(c->in, c->have, "\r\n\r\n", 4);
    if (!end) return;
    c->body = c->scanned = end + 4 - c->in;
    char *p = strcasestr(c->in, "\r\ncontent-length:");
    c->length = p && p < end ? strtol(p + 17, NULL, 10) : -1;
  }
  if (streaming) note_tokens(c, at);
  else if (!c->first && c->have > c->body) {
    c->first = 1;
    if (c->counted) add(&first, (at - c->due) / 1e3);
  }
  if (c->length >= 0 ? c->have >= c->body + c->length : c->have >= 5 && !memcmp(c->in + c->have - 5, "0\r\n\r\n", 5)) {
    int status = atoi(c->in + 9);
    if (c->counted) add(status == 429 || status == 503 ? &shed : &whole, (at - c->due) / 1e3);
    ended(c, status);
  } else if (c->have > ROOM - 70000) {
    memmove(c->in + c->body, c->in + c->have - 64, 64);
    c->have = c->body + 64, c->scanned = c->body;
  }
}

static int ascending(const void *a, const void *b) {
  double x = *(double *)a, y = *(double *)b;
  return x < y ? -1 : x > y;
}

static void report(const char *name, Samples *s) {
  if (!s->n) return;
  qsort(s->v, s->n, sizeof(double), ascending);
  printf(",\"%s\":{\"p50\":%.1f,\"p95\":%.1f,\"p99\":%.1f,\"max\":%.1f}", name, s->v[s->n / 2], s->v[s->n * 95 / 100], s->v[s->n * 99 / 100], s->v[s->n - 1]);
}

// Ask on every free connection whose time it is. Returns when the next one is due.
static long long ask_what_is_due(Conn **all, int connections, double rate, long long begin, long long measure, long long end) {
  static long asked;
  long long now = now_ns(), due = now, next = NEVER;
  for (int i = 0; i < connections; i++) {
    if (all[i]->busy) continue;
    if (rate > 0) due = begin + (long long)(asked * (1e9 / rate));
    if (due > now || due >= end) return due;
    if (rate <= 0 && pause_us && !all[i]->pause_until) all[i]->pause_until = now + random() % pause_us * 1000;
    if (all[i]->pause_until > now) {
      if (all[i]->pause_until < next) next = all[i]->pause_until;
      continue;
    }
    all[i]->pause_until = 0;
    asked++;
    ask(all[i], due, due >= measure);
  }
  return next;
}

int main(int argc, char **argv) {
  if (argc < 6) return fprintf(stderr, "usage: load PORT MODE MODEL CONNECTIONS SECONDS [RATE [POLL [KEY [PAUSE]]]]\n"), 2;
  const char *mode = argv[2], *model = argv[3], *key = argc > 8 ? argv[8] : "bench-key-000000000000";
  char body[2048];
  int speech = !strcmp(mode, "speech");
  int connections = atoi(argv[4]);
  double rate = argc > 6 ? atof(argv[6]) : 0;
  port = atoi(argv[1]);
  pause_us = argc > 9 ? atol(argv[9]) : 0;
  streaming = !strcmp(mode, "stream");
  if (speech) snprintf(body, sizeof body, "{\"model\":\"%s\",\"voice\":\"alloy\",\"response_format\":\"pcm\",\"input\":\"It will stay dry until nine.\"}", model);
  else snprintf(body, sizeof body, "{\"model\":\"%s\",%s\"messages\":[{\"role\":\"system\",\"content\":\"You answer callers in one short spoken sentence, without lists and without abbreviations.\"},"
                "{\"role\":\"user\",\"content\":\"Will it rain this evening by the river, and should I take the umbrella with me or leave it?\"}],\"temperature\":0.5,\"max_tokens\":100}",
                model, streaming ? "\"stream\":true,\"stream_options\":{\"include_usage\":true}," : "");
  request_size = snprintf(request, sizeof request, "POST /v1/%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: application/json\r\nAuthorization: Bearer %s\r\n"
                          "User-Agent: load/1\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s", speech ? "audio/speech" : "chat/completions", port, key, strlen(body), body);
  if (!strcmp(mode, "health")) request_size = snprintf(request, sizeof request, "GET /health HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n", port);
  int poll = argc > 7 && atoi(argv[7]), busy;
  long long begin = now_ns(), measure = begin + 1000000000LL, end = measure + (long long)(atof(argv[5]) * 1e9);
  Conn **all = calloc(connections, sizeof *all);
  struct epoll_event found[EVENTS];
  polling = epoll_create1(0);
  for (int i = 0; i < connections; i++) dial(all[i] = calloc(1, sizeof(Conn)));
  do {
    long long next = ask_what_is_due(all, connections, rate, begin, measure, end);
    int n = arrivals(polling, found, poll, next);
    for (int i = 0; i < n; i++) hear(found[i].data.ptr);
    busy = 0;
    for (int i = 0; i < connections && !busy; i++) busy = all[i]->busy;
  } while (busy || now_ns() < end);
  printf("{\"mode\":\"%s\",\"connections\":%d,\"rate\":%.0f,\"good\":%ld,\"bad\":%ld,\"refused\":%ld,\"per_s\":%.1f", mode, connections, rate, good, bad, refused, good / atof(argv[5]));
  report("whole", &whole);
  report("first", &first);
  report("relay", &relay);
  report("shed", &shed);
  report("gap", &gap);
  printf("}\n");
}
