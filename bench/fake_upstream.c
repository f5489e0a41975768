// A fast stand-in for an OpenAI-shaped provider, so that the gateway is what is measured. One thread for all connections.
//
//   fake_upstream PORT [latency_us] [tokens] [interval_us]
//
// POST .../chat/completions answers JSON, or server-sent events when the body asks to stream; each streamed token holds the
// monotonic time at which it was written (T<19 digits>). .../audio/speech answers pcm in pieces, .../audio/transcriptions JSON.
// GET /set?latency=US&tokens=N&interval=US&poll=1 changes the settings while it runs (poll: see peer.h).
#include "peer.h"

enum { ROOM = 32 << 20, MOST = 4096 };  // bytes of one request; malloc takes memory only as they come
typedef enum { NOTHING, CHAT, EVENTS_OF_CHAT, SPEECH, TRANSCRIPT } Kind;

// `kind` is what it is answering, `step` how many pieces of that have gone, `due` when the next one goes.
typedef struct {
  int fd;
  char *in;
  size_t have, need;
  Kind kind;
  long step;
  long long due;
} Conn;

static Conn *conns[MOST];
static int polling, listener, poll, count;
static long latency_us, tokens = 32, interval_us;

static int put_chunk(int fd, const char *data, size_t size) {
  static char out[16384];
  int n = sprintf(out, "%zx\r\n", size);
  memcpy(out + n, data, size);
  memcpy(out + n + size, "\r\n", 2);
  return put(fd, out, n + size + 2);
}

static int answer_json(int fd, const char *body) {
  char out[4096];
  int n = snprintf(out, sizeof out, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s", strlen(body), body);
  return put(fd, out, n);
}

static int begin_chunks(int fd, const char *type) {
  char head[256];
  int n = snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n", type);
  return put(fd, head, n);
}

static const char *COMPLETION =
    "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1790000000,\"model\":\"bench\",\"choices\":[{\"index\":0,"
    "\"message\":{\"role\":\"assistant\",\"content\":\"It will stay dry until nine, so the umbrella can stay at home this evening; "
    "take a light coat because the wind picks up after sunset near the river.\",\"refusal\":null},\"logprobs\":null,"
    "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":32,\"total_tokens\":74,"
    "\"prompt_tokens_details\":{\"cached_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0}}}";

static int put_token(int fd, long n) {
  char event[512];
  int size = snprintf(event, sizeof event,
                      "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"bench\","
                      "\"choices\":[{\"index\":0,\"delta\":{%s\"content\":\"T%019lld \"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
                      n ? "" : "\"role\":\"assistant\",", now_ns());
  return put_chunk(fd, event, size);
}

static int end_tokens(int fd) {
  char event[512];
  int size = snprintf(event, sizeof event,
                      "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                      "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":%ld,\"total_tokens\":%ld}}\n\n"
                      "data: [DONE]\n\n", tokens, tokens + 42);
  return put_chunk(fd, event, size);
}

static Kind asked(const char *head, const char *body) {
  const char *end = strchr(head, '\r'), *q;
  if (!strncmp(head, "GET ", 4)) {
    if ((q = strstr(head, "latency="))) latency_us = atol(q + 8);
    if ((q = strstr(head, "tokens="))) tokens = atol(q + 7);
    if ((q = strstr(head, "interval="))) interval_us = atol(q + 9);
    if ((q = strstr(head, "poll="))) poll = atoi(q + 5);
    return NOTHING;
  }
  if (memmem(head, end - head, "/audio/speech", 13)) return SPEECH;
  if (memmem(head, end - head, "/audio/transcriptions", 21)) return TRANSCRIPT;
  return strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true") ? EVENTS_OF_CHAT : CHAT;
}

// Send what is due. Returns -1 when the connection broke.
static int go_on(Conn *c, long long now) {
  static char pcm[4800];
  while (c->kind && c->due <= now) {
    int whole = c->kind == CHAT || c->kind == TRANSCRIPT, failed = 0;
    if (c->kind == CHAT) failed = answer_json(c->fd, COMPLETION);
    else if (c->kind == TRANSCRIPT) failed = answer_json(c->fd, "{\"text\":\"it will stay dry until nine\",\"usage\":{\"type\":\"duration\",\"seconds\":5}}");
    else {
      if (!c->step) failed = begin_chunks(c->fd, c->kind == SPEECH ? "audio/pcm" : "text/event-stream");
      if (!failed) failed = c->kind == SPEECH ? put_chunk(c->fd, pcm, sizeof pcm) : put_token(c->fd, c->step);
      if (!failed && ++c->step >= tokens) {
        failed = (c->kind == EVENTS_OF_CHAT && end_tokens(c->fd)) || put(c->fd, "0\r\n\r\n", 5);
        whole = 1;
      }
    }
    if (failed) return -1;
    if (whole) {
      c->kind = NOTHING;
      memmove(c->in, c->in + c->need, c->have - c->need);
      c->have -= c->need;
    } else c->due = interval_us ? now_ns() + interval_us * 1000 : now;
  }
  return 0;
}

// Read, and answer what is whole. Returns -1 when the connection is over.
static int hear(Conn *c) {
  ssize_t n = recv(c->fd, c->in + c->have, ROOM - c->have - 1, 0);
  if (n < 0 && errno == EAGAIN) return 0;
  if (n <= 0) return -1;
  c->have += n;
  while (!c->kind && c->have) {
    c->in[c->have] = 0;
    char *end = memmem(c->in, c->have, "\r\n\r\n", 4);
    if (!end) return 0;
    char *length = strcasestr(c->in, "\r\ncontent-length:");
    c->need = end + 4 - c->in + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
    if (c->have < c->need) return 0;
    c->kind = asked(c->in, end + 4);
    c->step = 0;
    if (!c->kind) {
      if (answer_json(c->fd, "{\"object\":\"list\",\"data\":[]}")) return -1;
      memmove(c->in, c->in + c->need, c->have - c->need);
      c->have -= c->need;
      continue;
    }
    long long now = now_ns();
    c->due = now + latency_us * 1000;
    if (go_on(c, now)) return -1;
  }
  return 0;
}

static void begin(int fd) {
  if (fd < 0) return;
  if (count == MOST) { close(fd); return; }
  Conn *c = conns[count++] = calloc(1, sizeof *c);
  c->fd = fd;
  c->in = malloc(ROOM);
  watch(polling, fd, c);
}

static void end(Conn *c) {
  for (int i = 0; i < count; i++)
    if (conns[i] == c) conns[i] = conns[--count];
  close(c->fd);
  free(c->in);
  free(c);
}

int main(int argc, char **argv) {
  int one = 1;
  struct epoll_event found[EVENTS];
  if (argc > 2) latency_us = atol(argv[2]);
  if (argc > 3) tokens = atol(argv[3]);
  if (argc > 4) interval_us = atol(argv[4]);
  struct sockaddr_in at = loopback(argc > 1 ? atoi(argv[1]) : 0);
  socklen_t size = sizeof at;
  polling = epoll_create1(0);
  listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1024)) return perror("fake_upstream"), 1;
  getsockname(listener, (void *)&at, &size);
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  watch(polling, listener, NULL);
  for (;;) {
    long long next = NEVER, now = now_ns();
    for (int i = count - 1; i >= 0; i--) {
      Conn *c = conns[i];
      if (!c->kind) continue;
      if (c->due <= now && go_on(c, now)) { end(c); continue; }
      if (c->kind && c->due < next) next = c->due;
    }
    int n = arrivals(polling, found, poll, next);
    for (int i = 0; i < n; i++) {
      Conn *c = found[i].data.ptr;
      if (!c) begin(accept(listener, NULL, NULL));
      else if (hear(c)) end(c);
    }
  }
}
