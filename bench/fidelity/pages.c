/* Pages of a tracing ring buffer -> a file as blktrace writes it.
 *
 * blktrace cannot record where the kernel is locked down (Secure Boot): its debugfs relay files
 * answer EPERM. The tracepoints of the block layer can still be read from a tracefs instance, and
 * its raw pages keep nanoseconds, which the text form rounds to microseconds.
 *
 *   pages RAW OUT CPU PAGE_BYTES EVENT...     EVENT = ACTION:ID:DEV:SECTOR:SECTORS:RWBS:ERROR
 *
 * ACTION is Q (queued), D (handed to the driver) or C (completed), ID the number of the event, the
 * others offsets in bytes from the event's format file; ERROR is -1 where the event has none.
 * Prints "EVENTS LOST_PAGES". Sources: `events/header_page` and `events/header_event` of tracefs,
 * include/linux/ring_buffer.h, include/uapi/linux/blktrace_api.h. Little-endian machines.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blktrace.h"

enum { PADDING = 29, TIME_EXTEND = 30, TIME_STAMP = 31, PAGE_HEADER = 16 };
#define COMMIT_LENGTH 0xfffffu
#define COMMIT_MISSED (1u << 31)

struct event {
    uint32_t action;
    int id, device, sector, sectors, rwbs, error;
};

static uint16_t read16(const unsigned char *at) { uint16_t v; memcpy(&v, at, sizeof v); return v; }
static uint32_t read32(const unsigned char *at) { uint32_t v; memcpy(&v, at, sizeof v); return v; }
static uint64_t read64(const unsigned char *at) { uint64_t v; memcpy(&v, at, sizeof v); return v; }

/* The marks of `rwbs` (fs: blk_fill_rwbs in kernel/trace/blktrace.c) as bits of an action. */
static uint32_t marks(const char *rwbs) {
    uint32_t bits = 0;
    for (int i = 0; i < 8 && rwbs[i]; i++) {
        switch (rwbs[i]) {
        case 'R': bits |= CATEGORY_READ; break;
        case 'W': bits |= CATEGORY_WRITE; break;
        case 'D': bits |= CATEGORY_DISCARD | CATEGORY_WRITE; break;
        case 'S': bits |= CATEGORY_SYNC; break;
        case 'M': bits |= CATEGORY_META; break;
        case 'A': bits |= CATEGORY_AHEAD; break;
        /* First a flush before the data, behind the direction FUA. */
        case 'F': bits |= i == 0 ? CATEGORY_FLUSH : CATEGORY_FUA; break;
        default: break;
        }
    }
    return bits;
}

static int parse_event(const char *text, struct event *event) {
    char action;
    if (sscanf(text, "%c:%d:%d:%d:%d:%d:%d", &action, &event->id, &event->device, &event->sector,
               &event->sectors, &event->rwbs, &event->error) != 7)
        return -1;
    switch (action) {
    case 'Q': event->action = ACTION_QUEUE | CATEGORY_QUEUE; return 0;
    case 'D': event->action = ACTION_ISSUE | CATEGORY_ISSUE; return 0;
    case 'C': event->action = ACTION_COMPLETE | CATEGORY_COMPLETE; return 0;
    default: return -1;
    }
}

int main(int argc, char **argv) {
    if (argc < 6) {
        fprintf(stderr, "usage: pages RAW OUT CPU PAGE_BYTES EVENT...\n");
        return 2;
    }
    FILE *in = fopen(argv[1], "rb"), *out = fopen(argv[2], "wb");
    uint32_t cpu = (uint32_t)atoi(argv[3]), sequence = 0;
    size_t page_bytes = (size_t)atoi(argv[4]);
    int events = argc - 5;
    struct event *event = calloc((size_t)events, sizeof *event);
    unsigned char *page = malloc(page_bytes);
    if (!in || !out || !event || !page) {
        perror("pages");
        return 1;
    }
    for (int i = 0; i < events; i++) {
        if (parse_event(argv[5 + i], &event[i])) {
            fprintf(stderr, "pages: not an event: %s\n", argv[5 + i]);
            return 2;
        }
    }
    unsigned long written = 0, lost_pages = 0;
    while (fread(page, 1, page_bytes, in) == page_bytes) {
        uint64_t now = read64(page), commit = read64(page + 8);
        if (commit & COMMIT_MISSED) lost_pages++;
        size_t length = commit & COMMIT_LENGTH;
        if (length > page_bytes - PAGE_HEADER) length = page_bytes - PAGE_HEADER;
        const unsigned char *at = page + PAGE_HEADER, *end = at + length;
        while (at + 4 <= end) {
            uint32_t head = read32(at), kind = head & 31;
            uint64_t delta = head >> 5;
            if (kind == PADDING) {
                if (delta == 0) break; /* The rest of the page is empty. */
                now += delta;
                at += 4 + read32(at + 4);
                continue;
            }
            if (kind == TIME_EXTEND) {
                now += delta + ((uint64_t)read32(at + 4) << 27);
                at += 8;
                continue;
            }
            if (kind == TIME_STAMP) {
                /* Absolute, but without its highest five bits. */
                uint64_t low = delta + ((uint64_t)read32(at + 4) << 27);
                now = (now & ~((1ull << 59) - 1)) | low;
                at += 8;
                continue;
            }
            now += delta;
            const unsigned char *data;
            if (kind == 0) { /* Long: its length, with this word, stands in front of it. */
                data = at + 8;
                at += 4 + ((read32(at + 4) + 3) & ~3u);
            } else {
                data = at + 4;
                at = data + kind * 4;
            }
            for (int i = 0; i < events; i++) {
                if (event[i].id != read16(data)) continue;
                struct blktrace record = {
                    .magic = BLKTRACE_MAGIC | BLKTRACE_VERSION,
                    .sequence = ++sequence,
                    .time = now,
                    .sector = read64(data + event[i].sector),
                    .bytes = read32(data + event[i].sectors) * 512u,
                    .action = event[i].action | CATEGORY_FS |
                              marks((const char *)data + event[i].rwbs),
                    .pid = read32(data + 4),
                    .device = read32(data + event[i].device),
                    .cpu = cpu,
                };
                if (event[i].error >= 0) record.error = (uint16_t)-read32(data + event[i].error);
                if (record.sector == ~0ull) record.sector = 0; /* A flush has no place. */
                if (fwrite(&record, sizeof record, 1, out) != 1) {
                    perror("pages: write");
                    return 1;
                }
                written++;
            }
        }
    }
    if (fclose(out)) {
        perror("pages: write");
        return 1;
    }
    printf("%lu %lu\n", written, lost_pages);
    return 0;
}
