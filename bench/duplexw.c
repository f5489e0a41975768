/* Duplex audio sessions over WebSocket: a vendor that answers every frame, and callers who send one every 20 ms.
 *
 *     duplex VENDOR_PORT [THREADS]
 *
 * reads runs from its standard input, a line each: `PORT PATH SESSIONS SECONDS TICK_US TOGETHER`. A caller's frame (640 bytes, binary)
 * begins with the time at which it is due, 16 hex digits; the answer is a Deepgram `Results` message that holds them as its
 * transcript, every fiftieth (once a second) a final one. Callers begin to speak in the course of the first second, so the finals of
 * all are spread over each second; with TOGETHER 1 they begin within 20 ms, so all their finals are due in the same 20 ms.
 * A frame is due 20 ms after the one before was due, however late that was sent, and its time runs from when it is due until its
 * answer has been read: whatever makes this program late is in it.
 * Each run ends with one JSON object: frames sent, answered, and answered out of order; that time (ms); how much later than due the
 * frames were sent (ms); and the time from when a frame was sent, less all that it may have waited for this program, at the vendor and at
 * the caller: since the program last looked at its sockets (ms). Frames larger than the buffer are not expected.
 *
 * Each thread is both sides, for its part of the callers and of the vendor's connections. With more than one, thread N has core N: what
 * callers and vendor take is then the same part of each core, so that it keeps no process of the gateway from one of them.
 * A thread looks at its clock and its sockets once a tick, and sleeps in between without waiting for sockets:
 * so the gateway never has to wake it, which over a network it would not have to either, and on one machine is half of what a
 * frame costs it. An answer waits for a tick twice, at the vendor and at the caller. With a tick of 0 it does not sleep during a
 * run, and takes a core.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/prctl.h>
#include "peer.h"

enum { FRAME = 640, BUFFER = 1 << 16, FINAL = 50, KEPT = 1024, MOST_THREADS = 16 };
static const long long SECOND_NS = 1000000000, EVERY_NS = 20000000, OPENING_NS = 3000000000;

typedef struct {
    int fd, vendor, up, used, received;
    long long next, expected; /* when the next frame is due, and the one whose answer comes next was */
    long long sent_at[KEPT]; /* of the last frames, by when they were due */
    unsigned char in[BUFFER];
} Session;

typedef struct {
    char path[1000];
    int port, sessions, seconds, tick_us, together;
    long long begun; /* when the first caller begins to speak */
} Order;

typedef struct {
    double *times_ms, *late_ms, *passed_ms;
    size_t sent, answers, disordered, most;
} Figures;

static int threads = 1, vendor_port, orders[MOST_THREADS], done[2]; /* pipes: an order for each thread, and a byte of each that ended a run */
static Order order;
static Figures figures_of[MOST_THREADS];

static __thread int number, polling, listener, open_callers, leaving;
static __thread Figures *figures; static double worst[1000];
static __thread long long looked, looked_before; /* when the sockets were looked at last, and the time before */

void accept_key(const char *key, char *out);

static void fail(const char *what) {
    perror(what);
    exit(1);
}

/* How long what is read now may have waited: it was not there when the sockets were looked at before. */
static long long waited_ns(void) {
    return now_ns() - looked_before;
}

static void answer(Session *s, const unsigned char *stamp) {
    char body[512], frame[600];
    int before = s->received++ / FINAL * FINAL, final = s->received % FINAL == 0;
    int size = snprintf(body, sizeof body,
        "{\"type\":\"Results\",\"channel_index\":[0,1],\"duration\":%.2f,\"start\":%.2f,\"is_final\":%s,\"speech_final\":false,"
        "\"channel\":{\"alternatives\":[{\"transcript\":\"%.16s%08llx\",\"confidence\":0.9,\"words\":[]}]},"
        "\"metadata\":{\"request_id\":\"r\"}}",
        (s->received - before) * 0.02, before * 0.02, final ? "true" : "false", stamp, waited_ns() / 1000 & 0xffffffff);
    frame[0] = (char)0x81;
    frame[1] = 126;
    frame[2] = (char)(size >> 8);
    frame[3] = (char)size;
    memcpy(frame + 4, body, size);
    put(s->fd, frame, size + 4);
}

static void finish(Session *s) {
    char summary[128], bye[] = {(char)0x88, 2, 3, (char)232};
    int size = snprintf(summary + 2, sizeof summary - 2,
        "{\"type\":\"Metadata\",\"request_id\":\"r\",\"duration\":%.2f,\"channels\":1}", s->received * 0.02);
    summary[0] = (char)0x81;
    summary[1] = (char)size;
    put(s->fd, summary, size + 2);
    put(s->fd, bye, sizeof bye);
}

static void note(Session *s, const unsigned char *data, size_t size) {
    const char *mark = "\"transcript\":\"";
    const unsigned char *at = memmem(data, size, mark, strlen(mark));
    if (!at || figures->answers == figures->most) return;
    char stamp[17] = {0}, waited[9] = {0};
    memcpy(stamp, at + strlen(mark), 16);
    memcpy(waited, at + strlen(mark) + 16, 8);
    long long due = strtoll(stamp, 0, 16), of_others = strtoll(waited, 0, 16) * 1000 + waited_ns();
    long long passed = now_ns() - s->sent_at[due / EVERY_NS % KEPT] - of_others;
    figures->passed_ms[figures->answers] = passed > 0 ? passed / 1e6 : 0;
    figures->disordered += due != s->expected;
    s->expected = due + EVERY_NS;
    { long b=(due-order.begun)/100000000; if(b>=0&&b<1000){ double t=(now_ns()-due)/1e6; if(t>worst[b]) worst[b]=t; } }
    figures->times_ms[figures->answers++] = (now_ns() - due) / 1e6;
}

/* Take whole frames out of the buffer. Returns 0 when the peer has said goodbye. */
static int digest(Session *s) {
    int at = 0;
    while (s->used - at >= 2) {
        unsigned char *f = s->in + at;
        int masked = f[1] & 0x80, head = 2;
        uint64_t size = f[1] & 0x7f;
        if (size == 126) {
            if (s->used - at < 4) break;
            size = f[2] << 8 | f[3];
            head = 4;
        } else if (size == 127) {
            fprintf(stderr, "a frame is too large\n");
            return 0;
        }
        unsigned char *mask = f + head;
        if (masked) head += 4;
        if ((uint64_t)(s->used - at) < head + size) break;
        int opcode = f[0] & 15;
        if (opcode == 8) {
            unsigned char bye[] = {0x88, 2, 3, 232};
            put(s->fd, bye, sizeof bye);
            return 0;
        }
        if (s->vendor && opcode == 1) {
            for (uint64_t i = 0; i < size; i++) f[head + i] ^= masked ? mask[i & 3] : 0;
            if (memmem(f + head, size, "CloseStream", 11)) {
                finish(s);
                return 0;
            }
        }
        if (s->vendor && opcode == 2 && size >= 16) {
            unsigned char stamp[16];
            for (int i = 0; i < 16; i++) stamp[i] = f[head + i] ^ (masked ? mask[i & 3] : 0);
            answer(s, stamp);
        } else if (!s->vendor && opcode == 1) {
            note(s, f + head, size);
        }
        at += head + size;
    }
    memmove(s->in, s->in + at, s->used - at);
    s->used -= at;
    return 1;
}

static int read_some(Session *s) {
    ssize_t n = recv(s->fd, s->in + s->used, BUFFER - s->used, 0);
    if (n < 0 && errno == EAGAIN) return 1;
    if (n <= 0) return 0;
    s->used += n;
    if (!s->up) {
        unsigned char *end = memmem(s->in, s->used, "\r\n\r\n", 4);
        if (!end) return 1;
        s->up = 1;
        if (s->vendor) {
            char made[64], head[256];
            char *key = 0;
            for (char *p = (char *)s->in; p < (char *)end; p++)
                if (!strncasecmp(p, "sec-websocket-key:", 18)) { key = p + 18; break; }
            while (key && *key == ' ') key++;
            char value[64] = {0};
            for (int i = 0; key && i < 60 && key[i] != '\r'; i++) value[i] = key[i];
            accept_key(value, made);
            int size = snprintf(head, sizeof head,
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n", made);
            put(s->fd, head, size);
        } else if (memcmp(s->in, "HTTP/1.1 101", 12)) {
            fprintf(stderr, "%.*s\n", (int)(end - s->in), s->in);
            exit(1);
        }
        int rest = s->used - (int)(end + 4 - s->in);
        memmove(s->in, end + 4, rest);
        s->used = rest;
    }
    return digest(s);
}

/* SHA-1 and base64 of the key and the protocol's constant (RFC 6455, 4.2.2). */
static uint32_t rol(uint32_t v, int n) { return v << n | v >> (32 - n); }

static void sha1(const unsigned char *data, size_t size, unsigned char *out) {
    uint32_t h[5] = {0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    unsigned char block[128] = {0};
    memcpy(block, data, size);
    block[size] = 0x80;
    size_t whole = size + 9 > 64 ? 128 : 64;
    uint64_t bits = size * 8;
    for (int i = 0; i < 8; i++) block[whole - 1 - i] = bits >> (8 * i);
    for (size_t at = 0; at < whole; at += 64) {
        uint32_t w[80], a = h[0], b = h[1], c = h[2], d = h[3], e = h[4];
        for (int i = 0; i < 16; i++)
            w[i] = block[at + 4 * i] << 24 | block[at + 4 * i + 1] << 16 | block[at + 4 * i + 2] << 8 | block[at + 4 * i + 3];
        for (int i = 16; i < 80; i++) w[i] = rol(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
        for (int i = 0; i < 80; i++) {
            uint32_t f = i < 20 ? (b & c) | (~b & d) : i < 40 ? b ^ c ^ d : i < 60 ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
            uint32_t k = i < 20 ? 0x5A827999 : i < 40 ? 0x6ED9EBA1 : i < 60 ? 0x8F1BBCDC : 0xCA62C1D6;
            uint32_t t = rol(a, 5) + f + e + k + w[i];
            e = d, d = c, c = rol(b, 30), b = a, a = t;
        }
        h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e;
    }
    for (int i = 0; i < 20; i++) out[i] = h[i / 4] >> (24 - 8 * (i % 4));
}

void accept_key(const char *key, char *out) {
    static const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned char text[128], sum[21] = {0};
    int size = snprintf((char *)text, sizeof text, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    sha1(text, size, sum);
    int n = 0;
    for (int i = 0; i < 21; i += 3) {
        uint32_t v = sum[i] << 16 | sum[i + 1] << 8 | sum[i + 2];
        for (int j = 3; j >= 0; j--) out[n++] = letters[v >> (6 * j) & 63];
    }
    out[27] = '=';
    out[28] = 0;
}

static Session *begin(int fd, int vendor) {
    Session *s = calloc(1, sizeof(Session));
    s->fd = fd;
    s->vendor = vendor;
    watch(polling, fd, s);
    return s;
}

static void listen_at(int port) {
    int one = 1;
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (threads > 1) setsockopt(listener, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    struct sockaddr_in at = loopback(port);
    if (bind(listener, (void *)&at, sizeof at) || listen(listener, 1024)) fail("listen");
    watch(polling, listener, &listener);
}

static Session *call(int port, const char *path) {
    struct sockaddr_in at = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&at, sizeof at)) fail("connect");
    char head[1200];
    int size = snprintf(head, sizeof head,
        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n", path, port);
    put(fd, head, size);
    open_callers++;
    return begin(fd, 0);
}

static void say(Session *s) {
    unsigned char frame[FRAME + 8] = {0x82, 0x80 | 126, FRAME >> 8, FRAME & 255, 0, 0, 0, 0};
    snprintf((char *)frame + 8, 17, "%016llx", s->next);
    long long now = s->sent_at[s->next / EVERY_NS % KEPT] = now_ns();
    figures->late_ms[figures->sent++] = (now - s->next) / 1e6;
    put(s->fd, frame, sizeof frame);
    s->next += EVERY_NS;
}

/* Sleep until the next tick, counted from `begun`. */
static void wait_tick(long long begun, long long tick) {
    long long now = now_ns(), at = begun + ((now - begun) / tick + 1) * tick;
    struct timespec until = {at / SECOND_NS, at % SECOND_NS};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, 0);
}

/* Read what has arrived, for both sides. `more` receives whether there may be more; returns whether a run was ordered. */
static int turn(int poll, long long until, int *more) {
    struct epoll_event events[EVENTS];
    int n = arrivals(polling, events, poll, until), ordered = 0;
    looked_before = looked;
    looked = now_ns();
    for (int i = 0; i < n; i++) {
        Session *s = events[i].data.ptr;
        if (!s) ordered = 1;
        else if ((void *)s == &listener) begin(accept(listener, 0, 0), 1);
        else if (!read_some(s)) {
            if (!s->vendor) {
                if (!leaving) {
                    fprintf(stderr, "a session ended early\n");
                    exit(1);
                }
                open_callers--;
            }
            close(s->fd); /* which takes it out of the poll; each socket has one event in `events` */
            free(s);
        }
    }
    *more = n == EVENTS;
    return ordered;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print_quantiles(const char *name, double *values, size_t count) {
#define AT(q) (count ? values[(size_t)((count - 1) * (q))] : 0.0)
    qsort(values, count, sizeof *values, by_size);
    printf(", \"%s\": {\"p50_ms\": %.3f, \"p99_ms\": %.3f, \"p999_ms\": %.3f, \"max_ms\": %.3f}", name, AT(0.5), AT(0.99), AT(0.999), AT(1.0));
}

/* This thread's part of a run: every `threads`th caller. */
static void run(void) {
    int count = order.sessions / threads + (number < order.sessions % threads), more = 0;
    Session **callers = calloc(count + 1, sizeof *callers);
    leaving = 0;
    for (int at = 0; at < count; at++) callers[at] = call(order.port, order.path);
    long long begun = order.begun, end = begun + order.seconds * SECOND_NS, now, tick = order.tick_us * 1000LL;
    for (int at = 0; at < count; at++) {
        int id = number + at * threads;
        long long after = EVERY_NS * id / order.sessions;
        callers[at]->next = callers[at]->expected =
            begun + (tick ? after / tick * tick : after) + (order.together ? 0 : EVERY_NS * (id % FINAL));
    }
    while ((now = now_ns()) < end + SECOND_NS) {
        for (int at = 0; at < count && now < end; at++)
            if (callers[at]->up && now >= callers[at]->next) say(callers[at]);
        do turn(!tick, 0, &more);
        while (more);
        if (tick) wait_tick(begun, tick);
    }
    leaving = 1;
    for (int at = 0; at < count; at++) {
        unsigned char bye[] = {0x88, 0x82, 0, 0, 0, 0, 3, 232};
        put(callers[at]->fd, bye, sizeof bye);
    }
    while (open_callers) turn(0, now_ns() + tick, &more);
    free(callers);
}

static void *serve(void *which) {
    number = (int)(intptr_t)which;
    figures = &figures_of[number];
    if (threads > 1) {
        cpu_set_t core;
        CPU_ZERO(&core);
        CPU_SET(number, &core);
        if (sched_setaffinity(0, sizeof core, &core)) fail("sched_setaffinity");
    }
    int ends[2], more;
    if (pipe(ends)) fail("pipe");
    orders[number] = ends[1];
    polling = epoll_create1(0);
    prctl(PR_SET_TIMERSLACK, 1000);
    listen_at(vendor_port);
    watch(polling, ends[0], 0);
    for (char byte = 0;;) {
        if (write(done[1], &byte, 1) != 1) fail("write");
        while (!turn(0, NEVER, &more) || read(ends[0], &byte, 1) != 1);
        run();
    }
    return 0;
}

/* Wait until every thread listens, or has ended its part of a run. */
static void wait_for_threads(void) {
    char byte;
    for (int n = 0; n < threads; n++)
        if (read(done[0], &byte, 1) != 1) fail("read");
}

/* Print the figures of all threads as one, and forget them. */
static void print_figures(void) {
    Figures *all = &figures_of[0];
    for (int n = 1; n < threads; n++) {
        Figures *one = &figures_of[n];
        memcpy(all->times_ms + all->answers, one->times_ms, one->answers * sizeof *one->times_ms);
        memcpy(all->passed_ms + all->answers, one->passed_ms, one->answers * sizeof *one->passed_ms);
        memcpy(all->late_ms + all->sent, one->late_ms, one->sent * sizeof *one->late_ms);
        all->sent += one->sent, all->answers += one->answers, all->disordered += one->disordered;
    }
    for(int b=0;b<order.seconds*10+5;b++){fprintf(stderr,"%.0f ",worst[b]); worst[b]=0;} fprintf(stderr,"\n");
    printf("{\"sent\": %zu, \"answered\": %zu, \"disordered\": %zu", all->sent, all->answers, all->disordered);
    print_quantiles("took", all->times_ms, all->answers);
    print_quantiles("late", all->late_ms, all->sent);
    print_quantiles("passed", all->passed_ms, all->answers);
    printf("}\n");
    fflush(stdout);
    for (int n = 0; n < threads; n++) {
        free(figures_of[n].times_ms);
        free(figures_of[n].late_ms);
        free(figures_of[n].passed_ms);
    }
}

int main(int count, char **words) {
    if (count > 2) threads = atoi(words[2]);
    if (count < 2 || count > 3 || threads < 1 || threads > MOST_THREADS)
        return fprintf(stderr, "usage: duplex VENDOR_PORT [THREADS], and runs on standard input; at most %d threads\n", MOST_THREADS), 2;
    vendor_port = atoi(words[1]);
    if (pipe(done)) fail("pipe");
    for (intptr_t n = 0; n < threads; n++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, serve, (void *)n)) fail("pthread_create");
    }
    wait_for_threads();
    for (char line[1200], byte = 0; fgets(line, sizeof line, stdin);) {
        if (sscanf(line, "%d %999s %d %d %d %d", &order.port, order.path, &order.sessions, &order.seconds, &order.tick_us,
                   &order.together) != 6) return 2;
        order.begun = now_ns() + OPENING_NS;
        for (int n = 0; n < threads; n++) {
            size_t most = (size_t)order.sessions * 50 * (order.seconds + 5); /* of all threads, since the first one's arrays get them all */
            figures_of[n] = (Figures){malloc(most * sizeof(double)), malloc(most * sizeof(double)), malloc(most * sizeof(double)), 0, 0, 0, most};
            if (write(orders[n], &byte, 1) != 1) fail("write");
        }
        wait_for_threads();
        print_figures();
    }
    return 0;
}
