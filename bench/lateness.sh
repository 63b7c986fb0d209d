#!/usr/bin/env bash
# Lateness of ioecho and of fio replaying the same requests on the same loop device.
#
#   bench/lateness.sh [RATE] [SECONDS] [TURNS]        (root; default 20000 10 5)
#
# Load: RATE random 4 KiB reads and writes (half and half) per second at constant distance, on a loop
# device over tmpfs. The tools take turns. fio replays it as an iolog of version 3 (microseconds)
# with io_uring. When the device saw a request is told by the block tracepoint `block_bio_queue`, for
# both tools alike: error = seen - planned, with the median taken away, because the tools start at
# different moments. ioecho's own figures stand below its line.
set -euo pipefail
cd "$(dirname "$0")/.."
rate=${1:-20000} seconds=${2:-10} turns=${3:-5}
[ "$(id -u)" = 0 ] || { echo "skipped: needs root"; exit 0; }
command -v fio > /dev/null || apt-get install -y -qq fio > /dev/null || { echo "skipped: no fio"; exit 0; }
tracing=/sys/kernel/tracing
[ -d $tracing/instances ] || mount -t tracefs none $tracing || { echo "skipped: no tracefs"; exit 0; }
cargo build --profile dist --locked --quiet
ioecho=$PWD/target/dist/ioecho
work=$(mktemp -d -p /dev/shm)
truncate -s 1G "$work/image"
loop=$(losetup -f --show "$work/image")
instance=$tracing/instances/ioecho-bench
mkdir -p $instance
cleanup() {
    echo 0 > $instance/tracing_on || true
    echo > $instance/set_event || true
    rmdir $instance || true
    losetup -d "$loop" || true
    rm -rf "$work"
}
trap cleanup EXIT
# Not through the page cache: while the kernel holds pages of a device, direct I/O on it has to throw
# them out first, and a whole run comes out host-stalled.
dd if=/dev/urandom of="$loop" bs=1M count=1024 oflag=direct status=none

python3 - "$work" "$loop" "$rate" "$seconds" <<'P'
import random, sys
work, loop, rate, seconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
random.seed(1)
load, iolog = open(work + "/load", "w"), open(work + "/iolog", "w")
load.write("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n")
iolog.write(f"fio version 3 iolog\n0 {loop} add\n0 {loop} open\n")
for n in range(rate * seconds):
    us, block, write = n * 1000000 // rate, random.randrange(1 << 18), random.random() < 0.5
    load.write(f"{us // 1000000}.{us % 1000000:06}000 ; {block * 8} ; 8 ; {'RW'[write]} ; 0.0 ; 0.0\n")
    iolog.write(f"{us} {loop} {('read', 'write')[write]} {block * 4096} 4096\n")
iolog.write(f"{seconds * 1000000} {loop} close\n")
P
"$ioecho" convert "$work/load" "$work/load.parquet" 2> /dev/null

device=$(stat -c '%t %T' "$loop" | { read -r major minor; echo $((0x$major << 20 | 0x$minor)); })
echo mono > $instance/trace_clock
echo 65536 > $instance/buffer_size_kb
echo "dev == $device && nr_sector == 8" > $instance/events/block/block_bio_queue/filter
echo 1 > $instance/events/block/block_bio_queue/enable

observe() { # NAME COMMAND…: runs it and prints the errors of issue that the device saw
    local name=$1; shift
    echo > $instance/trace
    echo 1 > $instance/tracing_on
    /usr/bin/env time -f "%U %S" -o "$work/cpu" "$@" > "$work/out" 2>&1 || true
    echo 0 > $instance/tracing_on
    cat $instance/trace > "$work/trace"
    python3 - "$name" "$work" "$rate" <<'P'
import re, sys
name, work, rate = sys.argv[1], sys.argv[2], int(sys.argv[3])
seen = {}
for line in open(work + "/trace"):
    m = re.search(r" (\d+\.\d+): block_bio_queue: \S+ (\w+) (\d+) \+ 8", line)
    if m: seen.setdefault((int(m[3]), "W" in m[2]), []).append(float(m[1]) * 1e6)
planned = {}
for line in open(work + "/iolog"):
    f = line.split()
    if len(f) == 5: planned.setdefault((int(f[3]) // 512, f[2] == "write"), []).append(int(f[0]))
# A place that was also read by somebody else (udev, the guard) cannot be told apart: left out.
sure = [key for key, at in planned.items() if len(seen.get(key, [])) == len(at)]
error = sorted(s - p for key in sure for s, p in zip(seen[key], planned[key]))
planned = sum(map(len, planned.values()))
if not error:
    sys.exit(f"{name}: nothing seen:\n" + open(work + "/out").read())
median = error[len(error) // 2]
off = sorted(abs(e - median) for e in error)
pc = lambda x, p: x[min(len(x) - 1, int(len(x) * p))]
cpu = sum(float(x) for x in open(work + "/cpu").read().split()[-2:])
print(f"{name:8} seen {len(error)}/{planned}  |error| p50 {pc(off,.5):9.1f} us  p99 {pc(off,.99):9.1f} us"
      f"  p99.9 {pc(off,.999):9.1f} us  max {off[-1]:9.1f} us  stretched {(error[-1] - error[0]) / 1e6:.3f} s"
      f"  CPU {cpu:5.2f} s")
P
}

for turn in $(seq "$turns"); do
    rm -rf "$work/run"
    observe ioecho "$ioecho" replay "$work/load.parquet" --target "$loop" -o "$work/run" -q
    sed -n 's/^lateness  */         own figures: lateness /p' "$work/out"
    observe fio fio --name=replay --read_iolog="$work/iolog" --ioengine=io_uring --direct=1 \
        --iodepth=256 --replay_no_stall=0 --fixedbufs=1
done
