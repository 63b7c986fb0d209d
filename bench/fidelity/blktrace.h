/* The record of a blktrace file, as include/uapi/linux/blktrace_api.h has it. */
#include <stdint.h>

#define BLKTRACE_MAGIC 0x65617400u
#define BLKTRACE_VERSION 7u

/* Low half of an action: what happened. */
enum { ACTION_QUEUE = 1, ACTION_ISSUE = 7, ACTION_COMPLETE = 8 };
#define ACTION_OF(action) ((action) & 0xffu)

/* High half: the categories. */
#define CATEGORY_READ (1u << 16)
#define CATEGORY_WRITE (1u << 17)
#define CATEGORY_FLUSH (1u << 18)
#define CATEGORY_SYNC (1u << 19)
#define CATEGORY_QUEUE (1u << 20)
#define CATEGORY_ISSUE (1u << 22)
#define CATEGORY_COMPLETE (1u << 23)
#define CATEGORY_FS (1u << 24)
#define CATEGORY_AHEAD (1u << 27)
#define CATEGORY_META (1u << 28)
#define CATEGORY_DISCARD (1u << 29)
#define CATEGORY_FUA (1u << 31)

struct blktrace {
    uint32_t magic, sequence;
    uint64_t time, sector;
    uint32_t bytes, action, pid, device, cpu;
    uint16_t error, payload;
};
_Static_assert(sizeof(struct blktrace) == 48, "the record has 48 bytes");
