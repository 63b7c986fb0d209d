#!/usr/bin/env bash
# A nightly backup with tar: a full one, a day's changes, and an incremental one, packed as it goes,
# from and to the same device. $FILES is what is saved, this host's documentation by default.
if [ "${1-}" = load ]; then
    # shellcheck disable=SC2154 # mnt is handed down by stand.sh
    cd "$mnt"
    tar --listed-incremental=state -czf full.tar.gz data
    sync -f full.tar.gz
    find data -type f | awk 'NR % 40 == 0' | while read -r file; do
        if [ -w "$file" ]; then echo changed >> "$file"; fi
    done
    sync -f data
    echo 3 > /proc/sys/vm/drop_caches
    tar --listed-incremental=state -czf day.tar.gz data
    sync -f day.tar.gz
    # A backup that was never read is none.
    gzip -t full.tar.gz day.tar.gz
    exit
fi

self=$(readlink -f "$0")
# shellcheck source=examples/record/stand.sh
. "$(dirname "$self")/stand.sh"
need tar gzip
files=${FILES:-/usr/share/doc}

make_device 1G
make_filesystem
cp -r "$files" "$mnt/data"
cold
record backup "A backup with tar and gzip: full, then incremental, then read back, on ext4" \
    "$self" load
