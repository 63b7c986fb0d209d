# Functions of the tests inside the machine; read with `. /vm/lib.sh`.
# shellcheck shell=sh

failures=0

# Says what is tested now.
step() { printf -- '-- %s\n' "$*"; }

# Counts a failure and goes on: one run shows all of them.
fail() {
    printf 'FAILED: %s\n' "$*"
    failures=$((failures + 1))
}

# Does the parts of a test that are asked for, by default all of them, and tells how long each took.
parts() { # "PART…" asked…
    all=$1
    shift
    # shellcheck disable=SC2086 # it is a list of words
    [ "$#" -gt 0 ] || set -- $all
    for part; do
        case " $all " in
        *" $part "*) ;;
        *)
            fail "there is no part $part"
            continue
            ;;
        esac
        begun=$(date +%s)
        "$part"
        printf '%s took %s s\n' "$part" $(($(date +%s) - begun))
    done
}

# Ends a test.
finish() {
    [ "$failures" = 0 ] || {
        printf '%s: %s failures\n' "$(basename "$0")" "$failures"
        exit 1
    }
    printf '%s: passed\n' "$(basename "$0")"
    exit 0
}

# Ends a test that cannot be made here.
skip() {
    printf 'skipped: %s: %s\n' "$(basename "$0")" "$*"
    exit 77
}

equal() { # what one other
    cmp -s "$2" "$3" || {
        fail "$1: $(wc -l <"$2") requests against $(wc -l <"$3")"
        diff "$2" "$3" | head -n 6
    }
}

need_debugfs() {
    grep -q ' /sys/kernel/debug debugfs' /proc/mounts || mount -t debugfs debugfs /sys/kernel/debug
}

# The same 200 requests of 4 KiB each time, reads and writes, past the page cache.
load() { # device
    fio --name=load --filename="$1" --direct=1 --rw=randrw --bs=4k --size=16M --number_ios=200 \
        --randseed=7 --allrandrepeat=1 --ioengine=libaio --iodepth=4 --output-format=terse \
        >/dev/null
}

# blktrace of a device while a load runs; files PREFIX.blktrace.N.
by_blktrace() { # device prefix
    need_debugfs
    blktrace -d "$1" -o "$2" >"$2.log" 2>&1 &
    tracer=$!
    sleep 2
    load "$1"
    sleep 1
    kill -INT "$tracer"
    wait "$tracer"
}

# What blktrace's own reader sees in such files as queued: operation, sector, sectors.
queued() { # prefix
    # Its filter `-a queue` lets all events of that category pass, of which Q is one.
    blkparse -q -i "$1" -f '%a %d %S %n\n' 2>/dev/null |
        awk 'NF == 4 && $1 == "Q" && $4 > 0 {print substr($2, 1, 1), $3, $4}' | sort
}

# The same of a load in blkreplay's format.
listed() { # file
    awk -F ';' '$1 ~ /^ *[0-9.]+ *$/ && NF >= 4 {
        gsub(/ /, ""); print toupper(substr($4, 1, 1)), $2, $3}' "$1" | sort
}

# Takes the frames of a recording apart into files as blktrace has them: a frame is a header of 32
# bytes, with the length of what follows at byte 12 (docs/recording-format.md).
unwrap() { # directory prefix
    # Of a processor without an event there is no file, and blkparse stops at the first gap.
    touch "$2.blktrace.0" "$2.blktrace.1"
    for file in "$1"/[0-9]*.cpu*; do
        out=$2.blktrace.${file##*.cpu}
        : >>"$out"
        size=$(wc -c <"$file")
        at=0
        while [ "$at" -lt "$size" ]; do
            length=$(dd if="$file" bs=1 skip=$((at + 12)) count=4 2>/dev/null |
                od -A n -t u4 | tr -d ' ')
            dd if="$file" bs=65536 iflag=skip_bytes,count_bytes skip=$((at + 32)) \
                count="$length" 2>/dev/null >>"$out"
            at=$((at + 32 + length))
        done
    done
}

# Whether the kernel has a block trace of a device.
is_traced() { # name
    [ "$(cat "/sys/block/$1/trace/enable")" = 1 ]
}

# No marker says that a trace is ours; the lock that stays is none.
no_markers() {
    markers=$(find /run/ioecho -name 'blktrace-*' 2>/dev/null)
    [ -z "$markers" ] || fail "markers are left: $markers"
}

# Nothing of ours is left in the kernel.
nothing_left() { # name
    ! is_traced "$1" || fail "$1 is still traced"
    no_markers
    for root in /sys/kernel/tracing /sys/kernel/debug/tracing; do
        left=$(find "$root/instances" -maxdepth 1 -name 'ioecho-*' 2>/dev/null)
        [ -z "$left" ] || fail "instances are left: $left"
    done
}

# Waits until the device is traced, or fails.
until_traced() { # name
    for _ in $(seq 50); do
        is_traced "$1" && return
        sleep 0.2
    done
    fail "$1 is not traced"
}
