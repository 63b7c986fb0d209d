#!/bin/sh
# What a recorder takes at the highest rate that fio reaches: ioecho by both interfaces, blktrace
# and trace-cmd, in turn, in the same machine, on null_blk and zram. It judges nothing. The processor
# is emulated: ratios count only. What trace-cmd's processes take between the last look at them and
# their end is missed here, often all of it: bench/record.py, on a real host, compares with them.
#
#   tests/vm/run.sh 'sh /vm/cost.sh [ROUNDS [REQUESTS]]'
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

rounds=${1:-3}
requests=${2:-40000}
modprobe null_blk nr_devices=1 gb=1 || skip 'no null_blk'
modprobe zram num_devices=1 || skip 'no zram'
echo 256M >/sys/block/zram0/disksize
dd if=/dev/zero of=/dev/zram0 bs=1M count=16 oflag=direct 2>/dev/null
need_debugfs
grep -q ' /sys/kernel/tracing ' /proc/mounts || mount -t tracefs tracefs /sys/kernel/tracing

# Milliseconds of the processors that these processes had, and how many of them still run.
used() { # pid…
    for pid; do
        sed 's/^.*) //' "/proc/$pid/stat" 2>/dev/null
    done | awk '{sum += $12 + $13; live += $1 != "Z"} END {print sum * 10, live + 0}'
}

# Ends a recorder, and sets $took to what recording took, up to the last page.
ended() { # recorder
    case $1 in
    ioecho-*) watched= ;;
    # The first process compresses what the others brought.
    trace-cmd*) watched=$(cat "/proc/$recorder/task/$recorder/children") ;;
    *) watched=$recorder ;;
    esac
    kill -INT "$recorder"
    took=0
    live=1
    while [ -n "$watched" ] && [ "$live" -gt 0 ]; do
        # shellcheck disable=SC2086 # several processes
        now=$(used $watched)
        live=${now#* }
        [ "${now% *}" -le "$took" ] || took=${now% *}
    done
    wait "$recorder"
    [ -n "$watched" ] || # It converts in the same process, and says what recording took.
        took=$(grep '"cost"' out.parquet.recording/log.jsonl | tail -n 1 | tr -s ',{}' '\n' |
            awk -F : '$1 == "\"cpu_ns\"" {printf "%d\n", $2 / 1000000}')
}

# Requests a second, and microseconds of the processor for a request, as fio has it of itself.
measured() { # device
    fio --name=load --filename="$1" --direct=1 --rw=randread --bs=4k --size=16M --norandommap \
        --number_ios="$requests" --io_size=100G --randseed=7 --ioengine=libaio --iodepth=64 \
        --iodepth_batch_submit=16 --iodepth_batch_complete_min=1 --output-format=terse |
        awk -F ';' -v n="$requests" '{printf "%d %.1f\n", $8, $9 * 10 * ($88 + $89) / n}'
}

# Three events of a request: what ioecho records by default, and is needed for a latency.
same='-e block:block_bio_queue -e block:block_rq_issue -e block:block_rq_complete'
same="$same -e block:block_bio_backmerge -e block:block_bio_frontmerge -e block:block_split"
same="$same -e block:block_rq_requeue -e block:block_bio_complete"

# shellcheck disable=SC2086 # the words of $same are words
begin() { # recorder device
    case $1 in
    ioecho-*)
        ioecho record "$2" -o out.parquet --keep-raw --quiet --interface "${1#ioecho-}" \
            >out.log 2>&1 &
        ;;
    blktrace) blktrace -d "$2" -o out >out.log 2>&1 & ;;
    trace-cmd) trace-cmd record -e block -o out.dat >out.log 2>&1 & ;;
    trace-cmd-same) trace-cmd record $same -b 31232 -o out.dat >out.log 2>&1 & ;;
    esac
    recorder=$!
}

# Events and lost ones, as the recorder itself says.
seen() { # recorder
    case $1 in
    ioecho-*)
        grep '"stopped"' out.parquet.recording/log.jsonl | tr -s ',{}' '\n' | awk -F : '
            $1 == "\"read\"" {read += $2} $1 == "\"lost\"" {lost += $2} END {print read, lost + 0}'
        ;;
    blktrace) awk '/Total:/ {gsub(/,/, ""); print $2, $5 + 0}' out.log ;;
    # What is read is told by its file alone; the kernel says what was lost.
    trace-cmd*)
        read=$(trace-cmd report -i out.dat 2>/dev/null | grep -c 'block_')
        lost=$(awk '/^(overrun|dropped events):/ {sum += $2} END {print sum + 0}' out.log)
        echo "$read $lost"
        ;;
    esac
}

printf '%-9s %-16s %9s %11s %8s %6s %11s\n' device recorder requests/s 'fio us/req' events lost \
    'recorder ms'
for _ in $(seq "$rounds"); do
    for device in nullb0 zram0; do
        for by in nobody ioecho-tracefs ioecho-blktrace blktrace trace-cmd trace-cmd-same; do
            rm -rf out*
            if [ "$by" = nobody ]; then
                rate=$(measured /dev/$device)
                took=0
                events='- -'
            else
                begin "$by" "/dev/$device"
                sleep 3
                rate=$(measured /dev/$device)
                ended "$by"
                events=$(seen "$by")
            fi
            # shellcheck disable=SC2086 # two words each
            printf '%-9s %-16s %9s %11s %8s %6s %11d\n' $device $by $rate $events \
                "$took" | tee -a rows
        done
    done
done

printf '\nmedians of %s rounds\n' "$rounds"
for device in nullb0 zram0; do
    for by in nobody ioecho-tracefs ioecho-blktrace blktrace trace-cmd trace-cmd-same; do
        for field in 3 4 5 6 7; do
            awk -v device=$device -v by=$by -v field=$field \
                '$1 == device && $2 == by {print $field}' rows | sort -n |
                awk '{row[NR] = $1} END {print row[int((NR + 1) / 2)]}'
        done | tr '\n' ' ' | awk -v device=$device -v by=$by '
            {printf "| %s | %s | %s | %s | %s | %s | %s |\n", device, by, $1, $2, $3, $4, $5}'
    done
done
finish
