#!/bin/sh
# A recorder by the ioctls is killed at any moment, also between the system call that sets its trace
# up and the marker that says whose it is: the next start takes down that trace, and no other.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe null_blk nr_devices=1 gb=1 || skip 'no null_blk'
need_debugfs
marker=/run/ioecho/blktrace-nullb0
trace=/sys/kernel/debug/block/nullb0

begin() { # name
    ioecho record --interface blktrace --quiet --to blkreplay /dev/nullb0 -o "$1.load" \
        >"$1.log" 2>&1 &
    recorder=$!
}

# Leaves a trace whose recorder was killed before it could write whose it was.
left() {
    begin left
    until_traced nullb0
    sleep 1
    kill -KILL "$recorder"
    wait "$recorder" 2>/dev/null
    rm -rf left.load.recording
    sed -i '3s/.*/about to/' "$marker"
    touch -r "$trace/dropped" "$marker"
    is_traced nullb0 || fail 'nothing was left; the test shows nothing'
    grep -q '^about to$' "$marker" || { fail 'no intent in the marker'; cat "$marker"; }
}

step 'debugfs knows when a trace was made'
left
age=$(($(date +%s) - $(stat -c %Y "$trace/dropped")))
[ "$age" -ge 0 ] || fail "its file is $((-age)) seconds ahead"
[ "$age" -lt 60 ] || fail "its file is $age seconds old"

step 'a trace that was about to be marked is taken down'
ioecho record --clean >clean.log 2>&1
grep -q 'removed block trace of nullb0' clean.log || { fail 'not told'; cat clean.log; }
nothing_left nullb0

step 'one that was made long after the marker is somebody else'"'"'s'
left
touch -d "@$(($(date +%s) - 60))" "$marker"
ioecho record --clean >clean.log 2>&1
is_traced nullb0 || fail 'a foreign trace was taken down'
[ ! -e "$marker" ] || fail 'the marker stays'
blktrace -d /dev/nullb0 -k >/dev/null 2>&1

step 'and so is one that somebody reads'
left
exec 7<"$trace/trace0"
ioecho record --clean >clean.log 2>&1
is_traced nullb0 || fail 'a trace that is read was taken down'
exec 7<&-
blktrace -d /dev/nullb0 -k >/dev/null 2>&1
rm -f "$marker"

step 'two at once: one records, the other is told, and the marker is the first one'"'"'s'
begin one
one=$recorder
begin two
two=$recorder
until_traced nullb0
sleep 2
running=0
for pid in "$one" "$two"; do
    kill -0 "$pid" 2>/dev/null && { running=$((running + 1)) && last=$pid; }
done
[ "$running" = 1 ] || fail "$running of two record"
cat one.log two.log | grep -q 'traced already by ioecho' || { fail 'not told'; cat one.log two.log; }
kill -KILL "$last"
wait "$last" 2>/dev/null
ioecho record --clean >clean.log 2>&1
grep -q 'removed block trace of nullb0' clean.log || { fail 'not cleaned'; cat clean.log; }
nothing_left nullb0
rm -rf one.* two.*

step 'killed at sixty moments, nothing is left'
traced=0
for round in $(seq 60); do
    begin killed
    usleep $((round * 15000))
    kill -KILL "$recorder"
    wait "$recorder" 2>/dev/null
    ! is_traced nullb0 || traced=$((traced + 1))
    ioecho record --clean >clean.log 2>&1
    nothing_left nullb0
    rm -rf killed.*
    [ "$failures" = 0 ] || { echo "round $round"; cat clean.log; break; }
done
echo "$traced of $round had set up their trace"
[ "$traced" -gt 0 ] || fail 'none was killed with a trace; the test shows nothing'
finish
