#!/usr/bin/env bash
# Kills a validated workload again and again, and reads back after each kill what it wrote.
#
#   bench/kill.sh [TIMES] [kill|durable] [FILE]      (default 50 kill; FILE has the storage sd1 at $lun)
#
# The target is a loop device over a file on the disk of $TMPDIR, or the file itself without root. All
# runs are one family: what a killed run left is what the next one goes on from. Each read-back must
# end with `intact`; the last lines tell how many requests were in flight when the runs were killed,
# and that a bit flipped by hand is found. Ends with 1 if anything is wrong.
set -euo pipefail
cd "$(dirname "$0")/.."
times=${1:-50} journal=${2:-kill} file=${3:-}
case $journal in
    kill) flag=-jn ;;
    durable) flag=-j ;;
    *) echo "there are kill and durable, not $journal" >&2; exit 2 ;;
esac
[ -n "${IOECHO:-}" ] || cargo build --release --locked --quiet
ioecho=${IOECHO:-$PWD/target/release/ioecho}
work=$(mktemp -d)
truncate -s 64M "$work/image"
lun=$work/image loop=
campaign='' pid=''
cleanup() {
    kill -9 $campaign $pid 2> /dev/null || true
    sleep 0.2
    [ -z "$loop" ] || losetup -d "$loop"
    rm -rf "$work"
}
trap cleanup EXIT
if [ "$(id -u)" = 0 ] && loop=$(losetup -f --show "$work/image"); then lun=$loop; fi
if [ -n "$file" ]; then
    cp "$file" "$work/dv.vdb"
else
    cat > "$work/dv.vdb" <<'F'
sd=sd1,lun=$lun,threads=16
wd=small,sd=sd1,rdpct=40,xfersize=4k
wd=large,sd=sd1,rdpct=40,xfersize=(4k,50,64k,50),seekpct=30
rd=dv,wd=(small,large),iorate=max,elapsed=10m
F
fi
cd "$work"

# A run that was not killed yet and has written something.
youngest() {
    [ -d out/cells ] || return 0
    find out/cells -name requests.journal -size +100k | while read -r path; do
        if [ ! -e "${path%/*}/.killed" ]; then
            echo "${path%/*}"
            break
        fi
    done
}

in_flight=0 wrong=0
for turn in $(seq "$times"); do
    "$ioecho" vdbench -f dv.vdb -o out "lun=$lun" --seed 1 --quiet --destroy sd1 "$flag" \
        > last.txt 2>&1 &
    campaign=$!
    run=
    for _ in $(seq 600); do
        run=$(youngest)
        [ -z "$run" ] || break
        kill -0 "$campaign" 2> /dev/null || { cat last.txt >&2; exit 1; }
        sleep 0.1
    done
    [ -n "$run" ] || { echo "no run began" >&2; exit 1; }
    sleep "0.$((RANDOM % 1000))"
    pid=$(sed -n 's/^pid = //p' "$run/run.toml")
    kill -9 "$campaign" "$pid"
    wait "$campaign" 2> /dev/null || true
    # The run is no child of this shell.
    for _ in $(seq 200); do kill -0 "$pid" 2> /dev/null || break; sleep 0.01; done
    touch "$run/.killed"
    campaign='' pid=''
    if ! "$ioecho" verify out --json > verify.json 2> verify.txt; then
        wrong=$((wrong + 1))
        echo "turn $turn: not intact"
        cat verify.txt
        python3 -c 'import json
for target in json.load(open("verify.json"))["targets"]:
    print(*target["notes"], *target["findings"][:5], sep="\n")' || true
    fi
    in_flight=$((in_flight + $(python3 -c 'import json
print(sum(target["in_flight"] for target in json.load(open("verify.json"))["targets"]))')))
done
echo "$times kills: $((times - wrong)) intact, $in_flight requests in flight"
# Where the last verification has looked, one bit.
python3 - "$lun" <<'P'
import os, sys
target = os.open(sys.argv[1], os.O_RDWR)
for at in range(1 << 20, 64 << 20, 4096):
    data = bytearray(os.pread(target, 4096, at))
    if data[:8] != bytes(8):
        data[300] ^= 16
        os.pwrite(target, data, at)
        os.fsync(target)
        sys.exit(0)
sys.exit("nothing was written")
P
code=0
"$ioecho" verify out > verify.txt 2>&1 || code=$?
[ "$code" = 15 ] && grep -q flipped verify.txt || { cat verify.txt; wrong=1; }
[ "$wrong" = 0 ]
