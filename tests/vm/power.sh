#!/bin/sh
# Runs outside of the machine: cuts its power in the middle of a set-up, boots it again with the
# same disks, and undoes. See README.md.
#
#   tests/vm/power.sh [STACK:MOMENT…]
#
# STACK is one of those in stacks.sh. MOMENT is a number of the stack's entries after which the
# power goes, or a number of milliseconds after the set-up has begun, such as 900ms.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ "$#" -gt 0 ] || set -- deep:1 deep:2 deep:5 deep:900ms across:5 across:2000ms
disks=$(mktemp -d)
trap 'rm -rf "$disks"' EXIT
export IOECHO_VM_DISKS="$disks"

failed=0
for cut; do
    stack=${cut%%:*}
    printf -- '-- the power goes: %s\n' "$cut"
    rm -f "$disks"/*
    IOECHO_VM_CUT=yes "$here/run.sh" "sh /vm/cut.sh set-up $stack ${cut#*:}" || {
        code=$?
        [ "$code" != 77 ] || exit 77
        printf 'FAILED: the power was not cut (%s)\n' "$code"
        failed=1
        continue
    }
    "$here/run.sh" "sh /vm/cut.sh undo $stack" || failed=1
done
exit "$failed"
