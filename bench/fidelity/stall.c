/* Does somebody take the processors away? Every processor spins at once and looks at the clock.
 *
 *   stall MILLISECONDS     prints per processor: CPU LOST_US LONGEST_US
 *
 * A hypervisor need not tell in /proc/stat what it steals, and what another program takes does not
 * appear there as stolen at all. A gap between two looks at the clock shows both. Gaps below 100 us
 * are left out: interrupts and the timer tick make them on the quietest machine.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { GAP_NS = 100000, CPU_MAX = 1024 };

struct probe {
    int cpu;
    int64_t until, lost, longest;
};

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ll + at.tv_nsec;
}

static void *spin(void *argument) {
    struct probe *probe = argument;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET((size_t)probe->cpu, &one);
    pthread_setaffinity_np(pthread_self(), sizeof one, &one);
    int64_t before = now_ns();
    while (before < probe->until) {
        int64_t now = now_ns(), gap = now - before;
        if (gap >= GAP_NS) {
            probe->lost += gap;
            if (gap > probe->longest) probe->longest = gap;
        }
        before = now;
    }
    return NULL;
}

int main(int argc, char **argv) {
    static struct probe probe[CPU_MAX];
    static pthread_t thread[CPU_MAX];
    cpu_set_t allowed;
    int n = 0;
    if (argc != 2 || sched_getaffinity(0, sizeof allowed, &allowed)) return 2;
    int64_t until = now_ns() + atoll(argv[1]) * 1000000;
    for (int cpu = 0; cpu < CPU_MAX; cpu++) {
        if (!CPU_ISSET((size_t)cpu, &allowed)) continue;
        probe[n] = (struct probe){.cpu = cpu, .until = until};
        if (pthread_create(&thread[n], NULL, spin, &probe[n])) return 1;
        n++;
    }
    for (int i = 0; i < n; i++) {
        pthread_join(thread[i], NULL);
        printf("%d %lld %lld\n", probe[i].cpu, (long long)(probe[i].lost / 1000),
               (long long)(probe[i].longest / 1000));
    }
    return 0;
}
