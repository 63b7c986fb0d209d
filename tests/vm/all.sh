#!/bin/sh
# All tests inside the virtual machine, each in a machine of its own. See README.md.
#
#   tests/vm/all.sh [NAME…]      requests, faults, kills, layers, witness, files, clone, nfs,
#                                lockdown, campaign, hosts, power, powercut; by default all of them
#
# Exit code: 0 where all passed or were skipped, 77 where all were skipped, 1 otherwise.
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ "$#" -gt 0 ] ||
    set -- requests faults kills layers witness files clone nfs lockdown campaign hosts power \
        powercut

failed=0
passed=0
for name; do
    printf '== %s\n' "$name"
    case $name in
    lockdown) append='lockdown=integrity' ;;
    *) append='' ;;
    esac
    case $name in
    # They have many parts.
    campaign | hosts | nfs) limit=${IOECHO_VM_TIMEOUT:-1800} ;;
    clone) limit=${IOECHO_VM_TIMEOUT:-900} ;;
    *) limit=${IOECHO_VM_TIMEOUT:-600} ;;
    esac
    files=''
    if [ "$name" = nfs ]; then
        # Published files without a licence, which are no part of this tree.
        files=$(find "${IOECHO_DATA:-/nowhere}/vdbench-parmfiles" -name '*juicefs*vdbench_*.conf' \
            -o -name '*CephFS*' 2>/dev/null | tr '\n' ' ')
    fi
    code=0
    case $name in
    # They boot the machine more than once.
    power | powercut) "$here/$name.sh" || code=$? ;;
    *)
        IOECHO_VM_APPEND="$append ${IOECHO_VM_APPEND:-}" IOECHO_VM_TIMEOUT=$limit \
            IOECHO_VM_FILES="${IOECHO_VM_FILES:-} $files" \
            "$here/run.sh" "sh /vm/$name.sh" || code=$?
        ;;
    esac
    case $code in
    0) passed=$((passed + 1)) ;;
    77) ;;
    *) failed=$((failed + 1)) ;;
    esac
done
[ "$failed" = 0 ] || exit 1
[ "$passed" -gt 0 ] || exit 77
