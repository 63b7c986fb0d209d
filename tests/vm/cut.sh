#!/bin/sh
# Inside the machine: what power.sh asks for. The undo files and the state before lie on the first
# disk, which outlives the boot.
#
#   cut.sh set-up MOMENT     begins a campaign; the power goes in the middle of its set-up
#   cut.sh undo              after the next boot
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/stacks.sh
. /vm/stacks.sh

modprobe ext4 2>/dev/null
# The first disk has no serial number.
first=$(disk '')
mkdir -p /keep
if [ "$1" = set-up ]; then
    mkfs.ext4 -q -F "/dev/$first" || fail 'no file system'
fi
mount -t ext4 "/dev/$first" /keep || skip 'no ext4'
mkdir -p /keep/lib /var/lib/ioecho
mount --bind /keep/lib /var/lib/ioecho
cd /keep || exit 1

if [ "$1" = set-up ]; then
    ready || skip 'this kernel lacks the device mapper or RAID'
    sync
    # Where it is a number, the power goes in an entry of its own, after so many of the others.
    cut='[[stack]]
module = "command"
apply = ["sh", "-c", "echo cut >/dev/ttyS2; sleep 100"]'
    stack=$(deep | awk -v after="${2%ms}" -v cut="$cut" '
        /^\[\[stack\]\]/ && n++ == after {print cut} {print} END {if (n == after) print cut}')
    case $2 in *ms) stack=$(deep) ;; esac
    write power pool "$stack" 60s
    case $2 in
    *ms) (
        usleep $((${2%ms} * 1000))
        echo cut >/dev/ttyS2
    ) & ;;
    esac
    ioecho campaign run power.toml --destroy pool
    fail "the campaign ended ($?)"
    finish
fi

mv before found
ready
cmp -s before found || echo 'something is left after the boot, as it should be'
diff found before
ls /var/lib/ioecho/undo
other=$(find /var/lib/ioecho/undo -name '*.jsonl' | wc -l)
[ "$other" -gt 0 ] || fail 'there is no undo file; the test shows nothing'
ioecho campaign undo --dry-run
ioecho campaign undo || fail "undo: exit code $?"
mv found before
as_found 'after the boot'
ioecho campaign undo | grep -q 'no campaign has left anything' || fail 'undo does not end'
finish
