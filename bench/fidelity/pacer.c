/* A bare pacer: the floor of what a program can do on this machine.
 *
 *   pacer TRACE DEVICE NEAR_US     NEAR_US: spin from so near on; 0 = only sleep, -1 = only spin
 *
 * It issues the queued requests of a merged blktrace file at their times and does nothing else: no
 * recording, no checks, one buffer for all. One thread, Linux AIO, deadlines counted from one start
 * (never from the request before, whose lateness would add up). What a full replay tool loses
 * against it is the price of that tool; what it loses itself is the machine's doing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "blktrace.h"

enum { SLOTS = 4096, REAP_MAX = 256, BUFFER = 4 << 20 };
/* The system call that reaps takes about this long: not tried when the next request is nearer. */
#define REAP_NS 3000
#define START_NS 100000000

static struct iocb slot[SLOTS], *vacant[SLOTS];
static struct io_event reaped[REAP_MAX];
static int vacancies;
static aio_context_t context;
static unsigned long completed, failed;

static int64_t now_ns(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000ll + at.tv_nsec;
}

static void reap(long at_least) {
    long n = syscall(SYS_io_getevents, context, at_least, (long)REAP_MAX, reaped, NULL);
    for (long i = 0; i < n; i++) {
        struct iocb *done = (struct iocb *)(uintptr_t)reaped[i].obj;
        if (reaped[i].res != (int64_t)done->aio_nbytes) failed++;
        vacant[vacancies++] = done;
        completed++;
    }
}

static void wait_until(int64_t due, int64_t near_ns) {
    for (;;) {
        int64_t left = due - now_ns();
        if (left <= 0) return;
        if (near_ns >= 0 && left > near_ns) {
            int64_t until = due - near_ns;
            struct timespec at = {until / 1000000000, until % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        } else if (left > REAP_NS && vacancies < SLOTS) {
            reap(0);
        }
    }
}

static void fail(const char *what) {
    perror(what);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: pacer TRACE DEVICE NEAR_US\n");
        return 2;
    }
    FILE *file = fopen(argv[1], "rb");
    if (!file || fseek(file, 0, SEEK_END)) fail(argv[1]);
    size_t records = (size_t)ftell(file) / sizeof(struct blktrace), requests = 0;
    rewind(file);
    struct blktrace *trace = malloc(records * sizeof *trace + 1);
    if (!trace || fread(trace, sizeof *trace, records, file) != records) fail(argv[1]);
    for (size_t i = 0; i < records; i++)
        if (ACTION_OF(trace[i].action) == ACTION_QUEUE && trace[i].bytes) {
            if (trace[i].bytes > BUFFER) {
                fprintf(stderr, "pacer: a request of %u bytes\n", trace[i].bytes);
                return 1;
            }
            trace[requests++] = trace[i];
        }
    int64_t near_us = atoll(argv[3]), near_ns = near_us < 0 ? -1 : near_us * 1000;
    int device = open(argv[2], O_RDWR | O_DIRECT);
    if (device < 0) fail(argv[2]);
    if (syscall(SYS_io_setup, SLOTS, &context)) fail("io_setup");
    char *buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (buffer == MAP_FAILED) fail("mmap");
    /* Not zeros: a device that compresses would have less to do than it had in the recording. */
    for (size_t i = 0; i < BUFFER; i += 256)
        if (getrandom(buffer + i, 256, 0) != 256) fail("getrandom");
    for (int i = 0; i < SLOTS; i++) vacant[vacancies++] = &slot[i];
    /* The default slack of a timer is 50 us: half of the distance that is slept to. */
    prctl(PR_SET_TIMERSLACK, 1);
    mlockall(MCL_CURRENT);

    int64_t start = now_ns() + START_NS;
    for (size_t i = 0; i < requests; i++) {
        wait_until(start + (int64_t)(trace[i].time - trace[0].time), near_ns);
        while (vacancies == 0) reap(1);
        struct iocb *request = vacant[--vacancies];
        *request = (struct iocb){
            .aio_fildes = (uint32_t)device,
            .aio_lio_opcode = trace[i].action & CATEGORY_WRITE ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
            .aio_buf = (uintptr_t)buffer,
            .aio_nbytes = trace[i].bytes,
            .aio_offset = (int64_t)trace[i].sector * 512,
        };
        if (syscall(SYS_io_submit, context, 1l, &request) != 1) fail("io_submit");
        if (vacancies < SLOTS / 8) reap(0);
    }
    while (completed < requests) reap(1);
    printf("requests %zu failed %lu\n", requests, failed);
    return failed != 0;
}
