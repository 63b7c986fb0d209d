#!/usr/bin/env bash
# fio's bursts: two jobs on the bare device, one that thinks and then reads in a hurry where it has
# been before, one that writes a log in bursts with flushes. Far from what the device could do.
# Needs fio.
if [ "${1-}" = load ]; then
    # shellcheck disable=SC2154 # device is handed down by stand.sh
    fio --output=/dev/null --filename="$device" --direct=1 --ioengine=libaio \
        --time_based --runtime=60 --randrepeat=1 \
        --name=readers --rw=randrw --rwmixread=85 --bssplit=4k/70:16k/20:64k/10 \
        --random_distribution=zipf:1.1 --iodepth=16 --size=768M \
        --thinktime=2s --thinktime_blocks=300 --rate_iops=2000,2000 \
        --name=log --rw=write --bs=8k --iodepth=4 --offset=768M --size=128M \
        --fdatasync=16 --thinktime=900ms --thinktime_blocks=90 --rate_iops=1000,1000
    exit
fi

self=$(readlink -f "$0")
# shellcheck source=examples/record/stand.sh
. "$(dirname "$self")/stand.sh"
need fio

make_device 1G
# What was never written is read from nowhere.
dd if=/dev/urandom of="$device" bs=1M oflag=direct status=none || true
cold
record bursts "fio: bursts of skewed reads and writes, and a log with flushes, on a bare device" \
    "$self" load
