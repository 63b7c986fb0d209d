#!/usr/bin/env bash
# PostgreSQL under pgbench (TPC-B), for a minute at 100 transactions/s: a small buffer pool and
# short checkpoints make it read and write in bursts. Needs the package postgresql.
PG=$(find /usr/lib/postgresql -mindepth 2 -maxdepth 2 -name bin 2> /dev/null | sort -V | tail -1)
as_postgres() { su postgres -c "cd / && $PG/$*"; }

if [ "${1-}" = load ]; then
    # shellcheck disable=SC2154 # mnt is handed down by stand.sh
    as_postgres "pgbench -h $mnt -c 8 -j 2 -R 100 -T 60 postgres"
    exit
fi

self=$(readlink -f "$0")
# shellcheck source=examples/record/stand.sh
. "$(dirname "$self")/stand.sh"
[ -n "$PG" ] || { echo "this load needs the package postgresql" >&2; exit 1; }
stop() { as_postgres "pg_ctl -D $mnt/db -m immediate stop" > /dev/null 2>&1; }

make_device 1G
make_filesystem
chown postgres "$mnt"
as_postgres "initdb -D $mnt/db" > /dev/null
cat >> "$mnt/db/postgresql.conf" << C
shared_buffers = 16MB
max_wal_size = 128MB
min_wal_size = 80MB
checkpoint_timeout = 30s
unix_socket_directories = '$mnt'
listen_addresses = ''
C
as_postgres "pg_ctl -D $mnt/db -l $mnt/log -w start" > /dev/null
as_postgres "pgbench -h $mnt -i -s 25 -q postgres"
cold
record pgbench "PostgreSQL under pgbench (TPC-B, scale 25), 8 clients, 100 transactions/s, on ext4" \
    "$self" load
