#!/bin/sh
# A fixed number of requests: exactly those in the recording, by either interface, as in blktrace's
# own recording, and in trace-cmd's count; on a disk, on a loop device and on device mapper.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe null_blk nr_devices=2 gb=1 || skip 'no null_blk'
truncate -s 64M /tmp/backing
losetup /dev/loop5 /tmp/backing
printf '0 131072 linear /dev/nullb1 2048\n' | dmsetup create mapped --noudevsync
dmsetup mknodes mapped

for device in /dev/nullb0 /dev/loop5 /dev/mapper/mapped; do
    name=$(basename "$(readlink -f "$device")")
    if [ "$device" = /dev/mapper/mapped ]; then
        name=dm-$(dmsetup info -c --noheadings -o minor mapped)
    fi
    step "$name by blktrace"
    by_blktrace "$device" "$name.own"
    queued "$name.own" >"$name.wanted"
    [ "$(wc -l <"$name.wanted")" = 200 ] || fail "blktrace saw $(wc -l <"$name.wanted") requests"

    for interface in blktrace tracefs; do
        step "$name by ioecho, $interface"
        output=$name.$interface
        ioecho record "$device" -o "$output.load" --to blkreplay --interface "$interface" \
            --keep-raw --quiet -- sh -c ". /vm/lib.sh; load $device" >"$output.log" 2>&1 ||
            { fail "exit code $?"; cat "$output.log"; }
        if [ "$interface" = blktrace ]; then
            unwrap "$output.load.recording" "$name-raw"
            queued "$name-raw" >"$output.frames"
            equal "$name: frames of the ioctls against blktrace" "$name.wanted" "$output.frames"
        fi
        listed "$output.load" >"$output.requests"
        equal "$name: $interface against blktrace" "$name.wanted" "$output.requests"
        nothing_left "$name"
    done
done

if command -v trace-cmd >/dev/null; then
    step 'nullb0 by trace-cmd'
    trace-cmd record -e block:block_bio_queue -o own.dat sh -c '. /vm/lib.sh; load /dev/nullb0' \
        >trace-cmd.log 2>&1
    number=$(tr : , </sys/block/nullb0/dev)
    trace-cmd report -i own.dat 2>/dev/null |
        awk -v dev="$number" '{
            for (i = 1; i < NF; i++) if ($i == "block_bio_queue:" && $(i + 1) == dev)
                print substr($(i + 2), 1, 1), $(i + 3), $(i + 5)
        }' | sort >own.requests
    equal 'trace-cmd against blktrace' nullb0.wanted own.requests
fi
finish
