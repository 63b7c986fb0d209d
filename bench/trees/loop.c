/* A bare loop over the files of a tree: what the calls alone take.
 *
 *     loop PHASE ANCHOR DIRECTORIES FILES THREADS [SECONDS]
 *
 * PHASE is make (create, write 4 KiB, close), stat or unlink. Thread n of t has every t-th file, from
 * the n-th on. Names are those of ioecho's trees, of one level. `stat` goes round until SECONDS are
 * over; the others go through the files once. Prints calls or files per second, and the processor
 * time of the threads for each in nanoseconds.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char *phase, *anchor;
static long directories, files, threads;
static double seconds;
static pthread_barrier_t barrier;

struct work {
    pthread_t thread;
    long number, done;
    double begun, ended, processor;
};

static double now(clockid_t clock)
{
    struct timespec at;
    clock_gettime(clock, &at);
    return at.tv_sec + at.tv_nsec / 1e9;
}

static void fail(const char *name)
{
    perror(name);
    exit(1);
}

static void *work(void *argument)
{
    struct work *own = argument;
    static const char data[4096] = "data";
    char name[512];
    struct stat found;
    int is_make = !strcmp(phase, "make"), is_stat = !strcmp(phase, "stat");
    long all = directories * files;
    pthread_barrier_wait(&barrier);
    own->begun = now(CLOCK_MONOTONIC);
    double processor = now(CLOCK_THREAD_CPUTIME_ID);
    for (long at = own->number;; at += threads) {
        if (at >= all) {
            if (!is_stat || now(CLOCK_MONOTONIC) - own->begun >= seconds)
                break;
            at = own->number;
        }
        snprintf(name, sizeof name, "%s/vdb.1_%ld.dir/vdb_f%04ld.file", anchor, at / files + 1,
                 at % files + 1);
        if (is_stat) {
            if (stat(name, &found))
                fail(name);
        } else if (is_make) {
            int file = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
            if (file < 0 || write(file, data, sizeof data) != sizeof data || close(file))
                fail(name);
        } else if (unlink(name)) {
            fail(name);
        }
        own->done++;
    }
    own->processor = now(CLOCK_THREAD_CPUTIME_ID) - processor;
    own->ended = now(CLOCK_MONOTONIC);
    return NULL;
}

int main(int count, char **words)
{
    if (count < 6)
        return 2;
    phase = words[1];
    anchor = words[2];
    directories = atol(words[3]);
    files = atol(words[4]);
    threads = atol(words[5]);
    seconds = count > 6 ? atof(words[6]) : 0;
    if (!strcmp(phase, "make")) {
        char name[512];
        if (mkdir(anchor, 0777))
            fail(anchor);
        for (long at = 1; at <= directories; at++) {
            snprintf(name, sizeof name, "%s/vdb.1_%ld.dir", anchor, at);
            if (mkdir(name, 0777))
                fail(name);
        }
    }
    struct work *all = calloc(threads, sizeof *all);
    pthread_barrier_init(&barrier, NULL, threads);
    for (long at = 0; at < threads; at++) {
        all[at].number = at;
        if (pthread_create(&all[at].thread, NULL, work, &all[at]))
            fail("pthread_create");
    }
    double begun = 1e18, ended = 0, processor = 0;
    long done = 0;
    for (long at = 0; at < threads; at++) {
        pthread_join(all[at].thread, NULL);
        begun = all[at].begun < begun ? all[at].begun : begun;
        ended = all[at].ended > ended ? all[at].ended : ended;
        processor += all[at].processor;
        done += all[at].done;
    }
    printf("%.0f %.0f\n", done / (ended - begun), processor / done * 1e9);
    return 0;
}
