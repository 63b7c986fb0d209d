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

# Whether a check found so many requests and misses so many. Its figures stand two steps in, those
# of each kind of request deeper.
counts() { # found missing file
    grep -q "^    \"found\": $1,\$" "$3" && grep -q "^    \"missing\": $2,\$" "$3"
}

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
        ioecho check "$run" $counted --json >check.json 2>&1
        counts 200 0 check.json || { fail 'not all of 200 requests'; cat check.log; }
    done
    nothing_left nullb0

    step "a replay that leaves out requests is not true, by $interface"
    ioecho convert "$interface.parquet" "$interface.csv" >/dev/null 2>&1
    sed '50,59d' "$interface.csv" >cut.csv
    ioecho check "$interface.csv" cut.csv $counted --json >check.json 2>&1
    code=$?
    [ "$code" = 22 ] || { fail "exit code $code"; cat check.json; }
    counts 190 10 check.json || { fail 'not told'; cat check.json; }
    grep -q '"missing-requests"' check.json || { fail 'not the reason'; cat check.json; }
done
finish
