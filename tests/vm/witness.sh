#!/bin/sh
# What was recorded is replayed with a witness, and the check finds every request where it was asked
# for. By both interfaces, on a disk, on a loop device and on device mapper. Instants are not
# judged: the processor is emulated.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe null_blk nr_devices=2 gb=1 memory_backed=1 || skip 'no null_blk'
truncate -s 64M /tmp/backing
losetup /dev/loop5 /tmp/backing
printf '0 131072 linear /dev/nullb1 2048\n' | dmsetup create mapped --noudevsync
dmsetup mknodes mapped

counted='--limit issue-p50=none --limit issue-p99=none --limit shift=none --limit duration=none
    --limit reordered=none --limit extra=0'

# shellcheck disable=SC2086 # the words of $counted are words
for interface in blktrace tracefs; do
    step "recorded by $interface"
    ioecho record /dev/nullb0 -o "$interface.parquet" --quiet --interface "$interface" -- \
        sh -c '. /vm/lib.sh; load /dev/nullb0' >record.log 2>&1 ||
        { fail "exit code $?"; cat record.log; }
    for target in /dev/nullb0 /dev/loop5 /dev/mapper/mapped; do
        step "replayed on $target, the witness by $interface"
        run=$interface.$(basename "$target")
        # A slow machine may be told to be late (the verdict's code), which is not what is tested.
        ioecho replay "$interface.parquet" -t "$target" --destroy "$target" -o "$run" --quiet \
            --witness="$interface" >replay.log 2>&1
        [ -s "$run/witness.parquet" ] || { fail 'no witness'; cat replay.log; continue; }
        ioecho check "$run" $counted >check.log 2>&1 || { fail "exit code $?"; cat check.log; }
        grep -q '200' check.log || { fail 'not 200 requests'; cat check.log; }
    done
    nothing_left nullb0

    step "a replay that leaves out requests is not true, by $interface"
    ioecho convert "$interface.parquet" "$interface.csv" >/dev/null 2>&1
    sed '50,59d' "$interface.csv" >cut.csv
    ioecho check "$interface.csv" cut.csv $counted >check.log 2>&1 &&
        { fail 'it passes'; cat check.log; }
    grep -q 'missing' check.log || { fail 'not told'; cat check.log; }
done
finish
