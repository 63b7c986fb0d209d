#!/bin/sh
# Inside the machine: what powercut.sh asks for. The results lie on a file system on the first disk,
# whose page cache the cut takes; the workload writes to the third disk, past the page cache, and
# what that has acknowledged outlives the cut.
#
#   plug.sh write MILLISECONDS    begins a workload; the power goes after so long
#   plug.sh verify                after the next boot
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/stacks.sh
. /vm/stacks.sh

modprobe ext4 2>/dev/null
first=$(disk '')
third=$(disk third)
mkdir -p /keep
if [ "$1" = write ]; then
    mkfs.ext4 -q -F "/dev/$first" || fail 'no file system'
fi
mount -t ext4 "/dev/$first" /keep || skip 'no ext4'
cd /keep || exit 1

if [ "$1" = write ]; then
    cat >dv.vdb <<F
sd=sd1,lun=/dev/$third,threads=16
wd=small,sd=sd1,rdpct=30,xfersize=4k
wd=large,sd=sd1,rdpct=30,xfersize=(4k,50,64k,50)
rd=first,wd=(small,large),iorate=max,elapsed=3
rd=dv,wd=large,iorate=max,elapsed=10m
F
    ioecho vdbench -f dv.vdb -o out --seed 1 --quiet --destroy sd1 -j &
    campaign=$!
    # The second run has begun: it checks what the first one wrote.
    for _ in $(seq 600); do
        [ "$(find out/cells -name requests.journal -size +20k 2>/dev/null | wc -l)" -lt 2 ] || break
        kill -0 "$campaign" 2>/dev/null || fail 'the workload has ended'
        [ "$failures" = 0 ] || finish
        usleep 100000
    done
    usleep $(($2 * 1000))
    echo cut >/dev/ttyS2
    wait "$campaign"
    fail "the workload ended ($?)"
    finish
fi

step 'nothing that was acknowledged is lost, and no alarm is false'
ioecho verify out --quiet --json >all.json 2>told || {
    fail "verify: exit code $?"
    cat told all.json
}
grep -q 'power' all.json || fail 'it does not know of the cut'
ioecho verify out --acknowledged --quiet --json >all.json 2>told || {
    fail "verify --acknowledged: exit code $?"
    cat told all.json
}
# The verdict has this name too.
for figure in intact in_flight; do
    grep -o "\"$figure\": *[0-9][0-9]*" all.json | head -n 1
done
intact=$(sed -n 's/.*"intact": *\([0-9][0-9]*\).*/\1/p' all.json | head -n 1)
[ "${intact:-0}" -gt 1000 ] || fail "only ${intact:-no} sectors are intact"

step 'what is lost is named'
# One block in the middle of those that were written.
dd if=/dev/zero of="/dev/$third" bs=4096 seek=5000 count=1 conv=fsync 2>/dev/null
code=0
ioecho verify out --acknowledged --quiet >told 2>&1 || code=$?
if [ "$code" != 15 ] || ! grep -q zeroed told; then
    fail "a zeroed block: exit code $code"
    cat told
fi

finish
