#!/usr/bin/env bash
# The life of a file system: made, mounted, filled with many small files, some taken away again and
# discarded, checked, grown. $FILES is what is copied, the headers of this host by default.
if [ "${1-}" = load ]; then
    # shellcheck disable=SC2154 # device, mnt and FILES are handed down
    mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$device" 768M
    mkdir -p "$mnt"
    mount "$device" "$mnt"
    cp -r "$FILES" "$mnt/one"
    sync -f "$mnt"
    sleep 1
    find "$mnt/one" -type f -name '*[a-m].h' -delete
    sync -f "$mnt"
    fstrim "$mnt"
    umount "$mnt"
    sleep 1
    # The check reads everything that is not data; 1 means that it mended something.
    e2fsck -f -p "$device" > /dev/null || [ $? = 1 ]
    resize2fs "$device" > /dev/null 2>&1
    mount "$device" "$mnt"
    find "$mnt" -type f -print0 | xargs -0 cat > /dev/null
    umount "$mnt"
    exit
fi

self=$(readlink -f "$0")
# shellcheck source=examples/record/stand.sh
. "$(dirname "$self")/stand.sh"
need mkfs.ext4 e2fsck resize2fs fstrim
export FILES=${FILES:-/usr/include}

make_device 1G
cold
record filesystem "The life of an ext4: made, filled, thinned out, trimmed, checked, grown, read" \
    "$self" load
