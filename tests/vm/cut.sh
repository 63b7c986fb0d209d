#!/bin/sh
# Inside the machine: what power.sh asks for. What outlives a boot of a real host lies on the first
# disk: the undo files, the records of iSCSI, and the state before.
#
#   cut.sh set-up STACK MOMENT     begins a campaign; the power goes in the middle of its set-up
#   cut.sh undo STACK              after the next boot
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
mkdir -p /keep/lib /var/lib/ioecho /keep/iscsi /etc/iscsi
mount --bind /keep/lib /var/lib/ioecho
mount --bind /keep/iscsi /etc/iscsi
cd /keep || exit 1
[ "$2" != across ] || ready_hosts

if [ "$1" = set-up ]; then
    ready
    sync
    # Where it is a number, the power goes in an entry of its own, after so many of the others.
    cut='[[stack]]
module = "command"
apply = ["sh", "-c", "echo cut >/dev/ttyS2; sleep 100"]'
    stack=$("$2" | awk -v after="${3%ms}" -v cut="$cut" '
        /^\[\[stack\]\]/ && n++ == after {print cut} {print} END {if (n == after) print cut}')
    case $3 in *ms) stack=$("$2") ;; esac
    volumes=1
    [ "$2" != across ] || volumes=2
    write power pool "$stack" 60s "$volumes"
    ioecho campaign run power.toml --destroy pool &
    campaign=$!
    case $3 in
    *ms)
        until_setting_up "$campaign"
        usleep $((${3%ms} * 1000))
        echo cut >/dev/ttyS2
        ;;
    esac
    wait "$campaign"
    fail "the campaign ended ($?)"
    finish
fi

mv before found
ready
cmp -s before found || echo 'something is left after the boot, as it should be'
diff found before
[ -n "$(undo_files)" ] || fail 'there is no undo file; the test shows nothing'
ioecho campaign undo --dry-run
ioecho campaign undo || fail "undo: exit code $?"
mv found before
as_found 'after the boot'
ioecho campaign undo | grep -q 'no campaign has left anything' || fail 'undo does not end'
finish
