#!/bin/sh
# Runs outside of the machine: cuts its power in the middle of a set-up, boots it again with the
# same disks, and undoes. See README.md.
#
#   tests/vm/power.sh [MOMENT…]
#
# MOMENT is a number of the stack's entries after which the power goes, or a number of milliseconds
# after the campaign's begin, such as 900ms.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ "$#" -gt 0 ] || set -- 1 2 5 1200ms
disks=$(mktemp -d)
trap 'rm -rf "$disks"' EXIT
export IOECHO_VM_DISKS="$disks"

failed=0
for moment; do
    printf -- '-- the power goes: %s\n' "$moment"
    rm -f "$disks"/*
    IOECHO_VM_CUT=yes "$here/run.sh" "sh /vm/cut.sh set-up $moment" || {
        code=$?
        [ "$code" != 77 ] || exit 77
        printf 'FAILED: the power was not cut (%s)\n' "$code"
        failed=1
        continue
    }
    "$here/run.sh" 'sh /vm/cut.sh undo' || failed=1
done
exit "$failed"
