// A fast stand-in for an OpenAI-shaped provider, so that the gateway is what is measured. One blocking thread per connection.
//
//   fake_upstream PORT [latency_us] [tokens] [interval_us]
//
// POST .../chat/completions answers JSON, or server-sent events when the body asks to stream; each streamed token holds the
// monotonic time at which it was written (T<19 digits>). .../audio/speech answers pcm in pieces, .../audio/transcriptions JSON.
// GET /set?latency=US&tokens=N&interval=US changes the settings while it runs.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

static volatile long latency_us = 0, tokens = 32, interval_us = 0;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int put(int fd, const char *data, size_t size) {
  while (size) {
    ssize_t n = write(fd, data, size);
    if (n <= 0) return -1;
    data += n, size -= n;
  }
  return 0;
}

static int put_chunk(int fd, const char *data, size_t size) {
  static __thread char out[16384];
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

static const char *CHAT =
    "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1790000000,\"model\":\"bench\",\"choices\":[{\"index\":0,"
    "\"message\":{\"role\":\"assistant\",\"content\":\"It will stay dry until nine, so the umbrella can stay at home this evening; "
    "take a light coat because the wind picks up after sunset near the river.\",\"refusal\":null},\"logprobs\":null,"
    "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":32,\"total_tokens\":74,"
    "\"prompt_tokens_details\":{\"cached_tokens\":0},\"completion_tokens_details\":{\"reasoning_tokens\":0}}}";

static int answer_events(int fd) {
  char event[512];
  const char *head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
  if (put(fd, head, strlen(head))) return -1;
  for (long i = 0; i < tokens; i++) {
    if (i && interval_us) usleep(interval_us);
    int n = snprintf(event, sizeof event,
                     "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\"model\":\"bench\","
                     "\"choices\":[{\"index\":0,\"delta\":{%s\"content\":\"T%019lld \"},\"logprobs\":null,\"finish_reason\":null}]}\n\n",
                     i ? "" : "\"role\":\"assistant\",", now_ns());
    if (put_chunk(fd, event, n)) return -1;
  }
  int n = snprintf(event, sizeof event,
                   "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
                   "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"choices\":[],\"usage\":{\"prompt_tokens\":42,\"completion_tokens\":%ld,\"total_tokens\":%ld}}\n\n"
                   "data: [DONE]\n\n", tokens, tokens + 42);
  return put_chunk(fd, event, n) || put(fd, "0\r\n\r\n", 5);
}

static int answer_speech(int fd) {
  static char pcm[4800];
  const char *head = "HTTP/1.1 200 OK\r\ncontent-type: audio/pcm\r\ntransfer-encoding: chunked\r\n\r\n";
  if (put(fd, head, strlen(head))) return -1;
  for (long i = 0; i < tokens; i++) {
    if (i && interval_us) usleep(interval_us);
    if (put_chunk(fd, pcm, sizeof pcm)) return -1;
  }
  return put(fd, "0\r\n\r\n", 5);
}

static int serve_one(int fd, const char *head, const char *body) {
  if (!strncmp(head, "GET ", 4)) {
    const char *q;
    if ((q = strstr(head, "latency="))) latency_us = atol(q + 8);
    if ((q = strstr(head, "tokens="))) tokens = atol(q + 7);
    if ((q = strstr(head, "interval="))) interval_us = atol(q + 9);
    return answer_json(fd, "{\"object\":\"list\",\"data\":[]}");
  }
  if (latency_us) usleep(latency_us);
  const char *line_end = strchr(head, '\r');
  if (memmem(head, line_end - head, "/audio/speech", 13)) return answer_speech(fd);
  if (memmem(head, line_end - head, "/audio/transcriptions", 21)) return answer_json(fd, "{\"text\":\"it will stay dry until nine\",\"usage\":{\"type\":\"duration\",\"seconds\":5}}");
  if (strstr(body, "\"stream\":true") || strstr(body, "\"stream\": true")) return answer_events(fd);
  return answer_json(fd, CHAT);
}

static void *connection(void *arg) {
  int fd = (int)(long)arg, one = 1;
  size_t room = 1 << 20, have = 0;
  char *in = malloc(room);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  for (;;) {
    ssize_t n = read(fd, in + have, room - have - 1);
    if (n <= 0) break;
    have += n;
    in[have] = 0;
    char *end = memmem(in, have, "\r\n\r\n", 4);
    if (!end) continue;
    char *length = strcasestr(in, "\r\ncontent-length:");
    size_t need = end + 4 - in + (length && length < end ? strtoul(length + 17, NULL, 10) : 0);
    if (have < need) continue;
    if (serve_one(fd, in, end + 4)) break;
    memmove(in, in + need, have - need);
    have -= need;
  }
  close(fd);
  free(in);
  return NULL;
}

int main(int argc, char **argv) {
  int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  signal(SIGPIPE, SIG_IGN);
  if (argc > 2) latency_us = atol(argv[2]);
  if (argc > 3) tokens = atol(argv[3]);
  if (argc > 4) interval_us = atol(argv[4]);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1024)) return perror("fake_upstream"), 1;
  socklen_t size = sizeof at;
  getsockname(listener, (void *)&at, &size);
  printf("%d\n", ntohs(at.sin_port));
  fflush(stdout);
  for (;;) {
    int fd = accept(listener, NULL, NULL);
    if (fd < 0) continue;
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    pthread_attr_setdetachstate(&small, PTHREAD_CREATE_DETACHED);
    pthread_create(&thread, &small, connection, (void *)(long)fd);
  }
}
