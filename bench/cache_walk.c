// What a core's caches keep while nothing else of this machine runs on it. Prints one JSON line; times in us.
//
//   cache_walk CORE [KB [PAUSE_MS [WALKS]]]
//
// Walks through KB of memory, one line of the cache after the other in random order, "at_once" after the walk before and "later", after
// PAUSE_MS in which it only reads the clock. Medians of WALKS. Where "later" takes longer, a guest beside this virtual machine took the
// caches, or its host moved it to another core. A request that comes after such a pause pays as well.
#include "peer.h"

enum { LINE = 64 };
typedef struct Line { struct Line *next; char rest[LINE - sizeof(struct Line *)]; } Line;

static int by_size(const void *a, const void *b) {
  double difference = *(const double *)a - *(const double *)b;
  return difference < 0 ? -1 : difference > 0;
}

static Line *in_random_order(int lines) {
  Line *all = aligned_alloc(4096, (size_t)lines * LINE);
  int *order = malloc(lines * sizeof *order);
  for (int i = 0; i < lines; i++) order[i] = i;
  for (int i = lines - 1; i > 0; i--) {
    int other = random() % (i + 1), kept = order[i];
    order[i] = order[other], order[other] = kept;
  }
  for (int i = 0; i < lines; i++) all[order[i]].next = &all[order[(i + 1) % lines]];
  free(order);
  return all;
}

static double median_walk(Line *first, int lines, double pause_ms, int walks) {
  double *times = malloc(walks * sizeof *times);
  for (int walk = 0; walk < walks; walk++) {
    long long until = now_ns() + (long long)(pause_ms * 1e6), began;
    while ((began = now_ns()) < until) continue;
    Line *volatile line = first;
    for (int i = 0; i < lines; i++) line = line->next;
    times[walk] = (now_ns() - began) / 1e3;
  }
  qsort(times, walks, sizeof *times, by_size);
  double median = times[walks / 2];
  free(times);
  return median;
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: cache_walk CORE [KB [PAUSE_MS [WALKS]]]\n"), 2;
  int lines = (argc > 2 ? atoi(argv[2]) : 512) * 1024 / LINE, walks = argc > 4 ? atoi(argv[4]) : 31;
  double pause_ms = argc > 3 ? atof(argv[3]) : 66;
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET(atoi(argv[1]), &core);
  if (sched_setaffinity(0, sizeof core, &core)) return perror("sched_setaffinity"), 1;
  if (lines < 2 || walks < 1) return fprintf(stderr, "cache_walk: KB and WALKS must be larger\n"), 2;
  Line *first = in_random_order(lines);
  median_walk(first, lines, 0, 3);
  double at_once = median_walk(first, lines, 0, walks);
  printf("{\"at_once\":{\"p50\":%.1f},\"later\":{\"p50\":%.1f}}\n", at_once, median_walk(first, lines, pause_ms, walks));
}
