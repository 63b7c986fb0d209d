#!/bin/sh
# A kernel that is locked down for integrity: the ioctls are refused with the reason, and `auto`
# takes tracefs.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
grep -q '\[integrity\]' /sys/kernel/security/lockdown || skip 'the kernel is not locked down'
modprobe null_blk nr_devices=1 gb=1 || modprobe brd || skip 'no device'
device=/dev/vda

step 'the ioctls are refused'
ioecho record "$device" -o a.load --to blkreplay --interface blktrace --for 1s >a.log 2>&1 &&
    fail 'it was recorded'
grep -q 'locked down (integrity)' a.log || { fail 'no reason'; cat a.log; }
grep -q -- '--interface tracefs' a.log || { fail 'no remedy'; cat a.log; }
nothing_left vda

step 'auto takes tracefs'
ioecho record "$device" -o b.load --to blkreplay -- \
    sh -c ". /vm/lib.sh; load $device" >b.log 2>&1 || { fail "exit code $?"; cat b.log; }
grep -q 'by tracefs' b.log || { fail 'not by tracefs'; cat b.log; }
[ "$(listed b.load | wc -l)" = 200 ] || { fail "$(listed b.load | wc -l) requests"; cat b.log; }
nothing_left vda
finish
