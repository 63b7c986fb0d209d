#!/bin/sh
# What goes wrong around a recording by the block trace ioctls: a second tracer, a kill, a device
# that vanishes, and that nothing of it stays in the kernel.
# shellcheck disable=SC2086 # the words of $one are words
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe null_blk nr_devices=1 gb=1 || skip 'no null_blk'
record() { ioecho record --interface blktrace --quiet --to blkreplay "$@"; }
# In the background; the process is $!, not a shell around it.
begin() {
    ioecho record --interface blktrace --quiet --to blkreplay /dev/nullb0 -o "$1.load" \
        >"$1.log" 2>&1 &
}
one='dd if=/dev/nullb0 of=/dev/null bs=4k count=1 iflag=direct'

step 'debugfs is not mounted, and is not mounted afterwards'
umount /sys/kernel/debug 2>/dev/null
record /dev/nullb0 -o a.load -- $one >a.log 2>&1 || { fail "exit code $?"; cat a.log; }
! grep -q ' /sys/kernel/debug debugfs' /proc/mounts || fail 'debugfs is mounted'
nothing_left nullb0
need_debugfs

step 'a second tracer is told who the first is, and the first goes on'
blktrace -d /dev/nullb0 -o first >first.log 2>&1 &
first=$!
until_traced nullb0
record /dev/nullb0 -o b.load -- $one >b.log 2>&1 && fail 'a traced device was recorded'
grep -q "traced already by blktrace (pid $first)" b.log || { fail 'no owner'; cat b.log; }
[ ! -e b.load.recording ] || fail 'a directory is left'
load /dev/nullb0
sleep 1
kill -INT "$first"
wait "$first"
queued first >first.requests
[ "$(wc -l <first.requests)" = 200 ] || fail "the first lost requests: $(wc -l <first.requests)"

step 'what a killed recorder left is taken down by the next start, which says so'
begin c
killed=$!
until_traced nullb0
# The kernel answers in the middle of the setting up; the marker is written right after.
sleep 1
kill -KILL "$killed"
wait "$killed" 2>/dev/null
is_traced nullb0 || fail 'nothing was left; the test shows nothing'
record /dev/nullb0 -o d.load -- $one >d.log 2>&1 || { fail "exit code $?"; cat d.log; }
grep -q 'killed recorder had left behind: block trace of nullb0' d.log ||
    { fail 'not told'; cat d.log; }
nothing_left nullb0

step 'and by record --clean'
begin e
killed=$!
until_traced nullb0
# The kernel answers in the middle of the setting up; the marker is written right after.
sleep 1
kill -KILL "$killed"
wait "$killed" 2>/dev/null
ioecho record --clean >clean.log 2>&1
grep -q 'removed block trace of nullb0' clean.log || { fail 'not told'; cat clean.log; }
nothing_left nullb0

step 'a trace that nobody reads and that is not ours is left alone'
blktrace -d /dev/nullb0 -o foreign >/dev/null 2>&1 &
foreign=$!
until_traced nullb0
kill -KILL "$foreign"
wait "$foreign" 2>/dev/null
record /dev/nullb0 -o f.load -- $one >f.log 2>&1 && fail 'a traced device was recorded'
grep -q 'blktrace -d /dev/nullb0 -k' f.log || { fail 'no remedy'; cat f.log; }
ioecho record --clean >/dev/null 2>&1
is_traced nullb0 || fail 'a foreign trace was taken down'
blktrace -d /dev/nullb0 -k >/dev/null 2>&1

step 'SIGTERM ends a recording cleanly'
begin g
recorder=$!
until_traced nullb0
load /dev/nullb0
kill -TERM "$recorder"
wait "$recorder"
listed g.load >g.requests
[ "$(wc -l <g.requests)" = 200 ] || { fail "$(wc -l <g.requests) requests"; cat g.log; }
nothing_left nullb0

step 'another blktrace on the device ends the recording, which says why'
begin h
recorder=$!
until_traced nullb0
blktrace -d /dev/nullb0 -k >/dev/null 2>&1
wait "$recorder" && fail 'no exit code'
grep -q 'taken down by another program' h.log || { fail 'not told'; cat h.log; }
nothing_left nullb0

scsi_disk() {
    for path in /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*:*/block/*; do
        [ -e "$path" ] && basename "$path"
    done
}

# Records a disk, and pulls it out half a second after a load.
removed() { # disk interface command
    ioecho record "/dev/$1" -o "$1.$2.load" --to blkreplay --quiet --interface "$2" \
        >removed.log 2>&1 &
    recorder=$!
    sleep 3
    load "/dev/$1"
    sleep 1
    eval "$3"
    for _ in $(seq 100); do
        kill -0 "$recorder" 2>/dev/null || break
        sleep 0.2
    done
    kill -KILL "$recorder" 2>/dev/null && fail 'it goes on without a device'
    wait "$recorder"
    code=$?
    [ "$code" = 13 ] || fail "exit code $code"
    grep -q "$1 was removed" removed.log || { fail 'not told'; cat removed.log; }
    [ "$(listed "$1.$2.load" | wc -l)" -ge 200 ] ||
        { fail "$(listed "$1.$2.load" | wc -l) requests"; cat removed.log; }
    [ ! -e "/sys/block/$1" ] || fail 'the disk is still there; the test shows nothing'
    no_markers
    [ -z "$(find /sys/kernel/tracing/instances -maxdepth 1 -name 'ioecho-*' 2>/dev/null)" ] ||
        fail 'an instance is left'
}

for interface in blktrace tracefs; do
    step "a disk that is removed while it is recorded, by $interface"
    # Nothing loads the disk driver by itself here, as udev does.
    modprobe sd_mod
    if modprobe scsi_debug dev_size_mb=32 && sleep 2 && disk=$(scsi_disk) && [ -n "$disk" ]; then
        removed "$disk" "$interface" "echo 1 >/sys/block/$disk/device/delete"
        modprobe -r scsi_debug
    else
        fail 'no scsi_debug'
    fi

    step "a disk that is made by configfs and taken away, by $interface"
    mount -t configfs configfs /sys/kernel/config 2>/dev/null
    configured=/sys/kernel/config/nullb/gone
    if mkdir "$configured" && echo 64 >"$configured/size" && echo 1 >"$configured/power"; then
        # Up to 6.1 the name is nullbN, later it is the directory's.
        disk=gone
        [ -e /sys/block/gone ] || disk=nullb$(cat "$configured/index")
        removed "$disk" "$interface" "echo 0 >$configured/power"
        rmdir "$configured"
    else
        fail 'no null_blk by configfs'
    fi
done

step 'a disk that is pulled out of the machine, by tracefs'
if [ -e /sys/block/vdb ]; then
    # What the kernel does when the slot of a running machine loses its card.
    card=$(dirname "$(readlink -f /sys/block/vdb/device)")
    removed vdb tracefs "echo 1 >$card/remove"
else
    fail 'no second disk'
fi

step 'a hundred recordings leave nothing behind'
for round in $(seq 100); do
    record /dev/nullb0 -o n.load -- $one >n.log 2>&1 || { fail "round $round"; cat n.log; break; }
    rm -f n.load
done
nothing_left nullb0
finish
