# shellcheck shell=bash
# A loop device of its own for a recording, and everything taken away again at the end.
#
# The scripts beside this one read it; they say what the device is used for. What they make is
# NAME.parquet in the current directory. $IOECHO is the program, $PLACE a directory with room for
# the device (on a disk: recordings of memory are of no use). Nothing else of the host is touched,
# but its page cache is dropped, and root is needed for the device and the recorder.
set -euo pipefail

ioecho=$(command -v "${IOECHO:-ioecho}") || { echo "there is no ioecho: set IOECHO" >&2; exit 1; }
# It is called from other directories, too.
ioecho=$(realpath "$ioecho")
[ "$(id -u)" = 0 ] || { echo "a loop device and a recording need root" >&2; exit 1; }

out=$PWD
work=$(mktemp -d "${PLACE:-/var/tmp}/ioecho-record.XXXXXX")
# Whoever the load runs as may go through it.
chmod 755 "$work"
device=''
mnt=$work/mnt
export device mnt

# A script may define `stop`, for what it has started.
stop() { :; }

finish() {
    stop || true
    if mountpoint -q "$mnt"; then umount "$mnt"; fi
    if [ -n "$device" ]; then losetup -d "$device"; fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# need TOOL…: ends where a tool is missing.
need() {
    local tool
    for tool; do
        command -v "$tool" > /dev/null || { echo "this load needs $tool" >&2; exit 1; }
    done
}

# make_device SIZE: a loop device over a new file, past the page cache of the file's own system.
make_device() {
    truncate -s "$1" "$work/device.img"
    device=$(losetup -f --show --direct-io=on "$work/device.img")
}

# make_filesystem: ext4 on the device, mounted at $mnt. Without the threads that initialise it
# later: they would work into the recording.
make_filesystem() {
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$device"
    mkdir -p "$mnt"
    mount "$device" "$mnt"
}

# cold: nothing is in the page cache.
cold() {
    sync
    echo 3 > /proc/sys/vm/drop_caches
}

# record NAME DESCRIPTION COMMAND…: what the device sees while the command runs.
record() {
    local name=$1 description=$2
    shift 2
    (cd "$work" && "$ioecho" record "$device" -q -o "$name.raw.parquet" -- "$@")
    (cd "$work" && "$ioecho" convert "$name.raw.parquet" "$name.parquet" \
        --description "$description" --license "MIT OR Apache-2.0")
    cp "$work/$name.parquet" "$out/"
    "$ioecho" info "$out/$name.parquet"
}
