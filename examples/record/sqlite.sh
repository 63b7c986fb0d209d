#!/usr/bin/env bash
# SQLite as an application uses it: small transactions at a human pace, each with its journal and
# its fsync, and every now and then a report that reads the whole table. Needs sqlite3.
if [ "${1-}" = load ]; then
    # shellcheck disable=SC2154 # mnt is handed down by stand.sh
    db=$mnt/app.db
    {
        for n in $(seq 1 1500); do
            key=$((n * 7919 % 40000))
            echo "BEGIN; INSERT INTO event VALUES($n, $key, hex(randomblob(150)));"
            echo "UPDATE item SET count = count + 1, note = hex(randomblob(40)) WHERE id = $key;"
            echo "COMMIT; SELECT note FROM item WHERE id = $((n * 104729 % 40000));"
            if [ $((n % 300)) = 0 ]; then echo "SELECT count(*), sum(length(body)) FROM item;"; fi
            sleep "0.0$((n * 31 % 7))"
        done
    } | sqlite3 "$db" > /dev/null
    sync -f "$mnt"
    exit
fi

self=$(readlink -f "$0")
# shellcheck source=examples/record/stand.sh
. "$(dirname "$self")/stand.sh"
need sqlite3

make_device 512M
make_filesystem
sqlite3 "$mnt/app.db" << 'S'
CREATE TABLE item(id INTEGER PRIMARY KEY, count INTEGER, note TEXT, body TEXT);
CREATE TABLE event(id INTEGER PRIMARY KEY, item INTEGER, what TEXT);
CREATE INDEX event_item ON event(item);
CREATE INDEX item_note ON item(note);
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 39999)
INSERT INTO item SELECT i, 0, hex(randomblob(40)), hex(randomblob(400)) FROM n;
S
cold
record sqlite "SQLite with a rollback journal: small transactions, lookups and reports, on ext4" \
    "$self" load
