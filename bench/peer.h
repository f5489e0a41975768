// What the benchmarks' providers and callers share: time, and sockets that one thread looks after.
//
// With `poll` it never sleeps while there is work: waking a sleeper on another core is dear for who writes to it (in a virtual
// machine tens of microseconds), which would be charged to what is measured, and over a network nobody would pay it.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { EVENTS = 256 };
static const long long NEVER = 0x7fffffffffffffffLL, RESTLESS_NS = 100000000LL;

static long long now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct sockaddr_in loopback(int port) {
  return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

// With `who` in the events of the socket (or of any other descriptor).
static void watch(int polling, int fd, void *who) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  fcntl(fd, F_SETFL, O_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = who};
  if (epoll_ctl(polling, EPOLL_CTL_ADD, fd, &event)) perror("epoll_ctl"), exit(1);
}

// 0, or -1 when the connection broke. Waits for a slow reader.
static int put(int fd, const void *what, size_t size) {
  const char *data = what;
  while (size) {
    ssize_t n = send(fd, data, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) { sched_yield(); continue; }
    if (n <= 0) return -1;
    data += n, size -= n;
  }
  return 0;
}

// What has arrived by `until`. A poller lets others have its core, but does not sleep unless nothing came for RESTLESS_NS.
static int arrivals(int polling, struct epoll_event *found, int poll, long long until) {
  static long long last;
  long long now = now_ns(), left = until > now ? until - now : 0;
  if (poll && now - last < RESTLESS_NS) left = 0;
  else if (left > RESTLESS_NS) left = RESTLESS_NS;
  struct timespec most = {left / 1000000000, left % 1000000000};
  int n = epoll_pwait2(polling, found, EVENTS, &most, NULL);
  if (n > 0) last = now_ns();
  else if (!left) sched_yield();
  return n;
}
