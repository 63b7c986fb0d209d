#!/bin/sh
# Runs outside of the machine: cuts its power in the midst of a workload that keeps a durable
# journal, boots it again with the same disks, and reads back what had been written. See README.md.
#
#   tests/vm/powercut.sh [MILLISECONDS…]     how long the workload has been writing when it happens
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ "$#" -gt 0 ] || set -- 300 1500 4000
disks=$(mktemp -d)
trap 'rm -rf "$disks"' EXIT
export IOECHO_VM_DISKS="$disks"

failed=0
for moment; do
    printf -- '-- the power goes after %s ms of writing\n' "$moment"
    rm -f "$disks"/*
    IOECHO_VM_CUT=yes "$here/run.sh" "sh /vm/plug.sh write $moment" || {
        code=$?
        [ "$code" != 77 ] || exit 77
        printf 'FAILED: the power was not cut (%s)\n' "$code"
        failed=1
        continue
    }
    "$here/run.sh" 'sh /vm/plug.sh verify' || failed=1
done
exit "$failed"
