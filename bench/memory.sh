#!/usr/bin/env bash
# Memory of convert and replay on a trace of 50 million requests, made by repeating a real one.
#
#   bench/memory.sh [TRACE.load.gz]
#
# Without an argument the recording in examples/ is repeated. Convert reads the text and writes the
# native file; replay goes to the simulated device. The figure is the largest resident set
# (GNU time, Debian package `time`).
set -euo pipefail
cd "$(dirname "$0")/.."
command -v /usr/bin/time > /dev/null || { echo "skipped: needs GNU time (apt-get install time)"; exit 0; }
cargo build --profile dist --locked --quiet
ioecho=$PWD/target/dist/ioecho
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ $# -gt 0 ]; then
    zcat -f "$1"
else
    "$ioecho" convert examples/pgbench.parquet "$work/one.load" 2> /dev/null
    cat "$work/one.load"
fi | awk -F';' '/^ *[0-9]+\.[0-9]+ *;/' > "$work/lines"
requests=$(wc -l < "$work/lines")
turns=$((50000000 / requests + 1))

# The loads follow each other: a time that steps back shifts the rest, as blkreplay has it.
repeat() { for _ in $(seq "$turns"); do cat "$work/lines"; done; }
measure() { /usr/bin/time -f "%M KiB, %e s wall, %U s user" "$@"; }

echo "convert: $((turns * requests)) requests"
repeat | measure "$ioecho" convert - "$work/long.parquet"
ls -l "$work/long.parquet" | awk '{ print $5 " bytes" }'
echo "info:"
measure "$ioecho" info "$work/long.parquet" | grep '^requests'
echo "replay on a simulated device, 1,000 times as fast:"
measure "$ioecho" replay "$work/long.parquet" --target sim:size=64G,units=64,service=1us \
    --speedup 1000 -o "$work/run" -q | head -2
