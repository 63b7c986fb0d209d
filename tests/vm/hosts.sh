#!/bin/sh
# Volumes that go over iSCSI and NVMe, target and initiator on one host: whatever happens, the
# machine is left as it was found.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/stacks.sh
. /vm/stacks.sh

modprobe -a target_core_mod target_core_iblock iscsi_target_mod iscsi_tcp sd_mod nvmet nvmet-tcp \
    nvme-loop nvme-tcp 2>/dev/null
mount -t configfs configfs /sys/kernel/config 2>/dev/null
mkdir -p /etc/iscsi /etc/nvme /run/lock/iscsi /var/lib/iscsi
echo 'node.startup = manual' >/etc/iscsi/iscsid.conf
echo 'InitiatorName=iqn.2026-01.test:vm' >/etc/iscsi/initiatorname.iscsi
ready || skip 'this kernel lacks the device mapper or RAID'

killed() { # name stack
    open=0
    for millis in 1000 4000; do
        write killed pool "$2" 30s 2
        ioecho campaign run killed.toml --destroy pool --quiet >killed.log 2>&1 &
        campaign=$!
        usleep $((millis * 1000))
        kill -KILL "$campaign"
        wait "$campaign" 2>/dev/null
        [ -z "$(ls /var/lib/ioecho/undo/*.jsonl 2>/dev/null)" ] || open=$((open + 1))
        ioecho campaign undo >undo.log 2>&1 || { fail "undo after $millis ms"; cat undo.log; }
        as_found "$1, killed after $millis ms"
        rm -rf killed.campaign
    done
    [ "$open" -gt 0 ] || fail 'no kill came while something was set up; the test shows nothing'
}

if [ -d /sys/kernel/config/nvmet ]; then
    step 'two volumes over NVMe, within the host and by TCP'
    for transport in loop tcp; do
        campaign "nvme-$transport" pool "$(entry lvm 'count = 2' 'size = "32M"')
$(entry nvme-target "transport = \"$transport\"")
$(entry nvme-initiator)" 1s 2
    done
    killed nvme "$(entry nvme-target 'transport = "tcp"')
$(entry nvme-initiator)"
else
    fail 'no nvmet'
fi

if [ -d /sys/kernel/config/target ] && iscsid; then
    step 'two volumes over iSCSI, and a file system on one'
    campaign iscsi pool "$(entry iscsi-target)
$(entry iscsi-initiator)" 1s 2
    campaign iscsi-fs b "$(entry iscsi-target 'portal = "127.0.0.1:3261"')
$(entry iscsi-initiator)
$(entry fs 'type = "ext4"' 'size = "8M"')"
    killed iscsi "$(entry lvm 'count = 2' 'size = "32M"')
$(entry iscsi-target)
$(entry iscsi-initiator)"
else
    fail 'no LIO, or no initiator'
fi
finish
