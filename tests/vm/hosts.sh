#!/bin/sh
# Volumes that go over iSCSI and NVMe, target and initiator on one host: whatever happens, the
# machine is left as it was found.
#
#   hosts.sh [PART…]         the functions below; by default all of them
# shellcheck disable=SC2317 # parts are called by their names
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/stacks.sh
. /vm/stacks.sh

nvme_volumes() {
    step 'two volumes over NVMe, within the host and by TCP'
    for transport in loop tcp; do
        campaign "nvme-$transport" pool "$(entry lvm 'count = 2' 'size = "32M"')
$(entry nvme-target "transport = \"$transport\"")
$(entry nvme-initiator)" 1s 2
    done
}

iscsi_volumes() {
    step 'two volumes over iSCSI, filled before, and a file system on one'
    campaign iscsi pool "$(entry lvm 'count = 2' 'size = "16M"')
$(entry iscsi-target)
$(entry iscsi-initiator)
$(entry fill)" 1s 2
    campaign iscsi-fs b "$(entry lvm 'size = "16M"')
$(entry iscsi-target 'portal = "127.0.0.1:3261"')
$(entry iscsi-initiator)
$(entry fs 'type = "ext4"' 'size = "8M"')"
}

leg() {
    step 'a leg of the target fails while initiators replay, and is put back'
    campaign leg pool "$(entry md 'level = 1')
$(entry fault 'kind = "fail-leg"' "device = \"/dev/$c\"" 'at = "8s"' 'for = "2s"')
$(entry nvme-target 'transport = "tcp"')
$(entry nvme-initiator)" 15s
    grep -q 'it was put right' "$(of_run leg fault.txt)" || fail 'the leg did not fail'
    [ "$(figure leg failed)" = 0 ] || fail 'requests failed though the other leg was whole'
}

killed() {
    step 'a killed campaign is undone, wherever it was'
    killed_in "$(across)" 2 500 3000 10000
}

ready_hosts
ready
parts 'nvme_volumes iscsi_volumes leg killed' "$@"
finish
