#!/bin/sh
# Campaigns that set devices up which not every machine can have: logical volumes, RAID sets whose
# leg fails beside the replay, mapped devices, control groups of the unified hierarchy. Whatever
# happens, the machine is left as it was found.
#
#   campaign.sh [PART…]      the functions below; by default all of them
# shellcheck disable=SC2317 # parts are called by their names
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/stacks.sh
. /vm/stacks.sh

volumes() {
    step 'logical volumes: linear, striped, thin, and equal shares of what is free'
    campaign lvm pool \
        "$(entry lvm 'vg = "vg-test"' 'count = 2' 'size = "16M"' 'extra.log = "4M"')" 1s 2
    campaign stripes pool "$(entry lvm 'stripes = 2' 'stripe-size = "64K"' 'size-max = "32M"')
$(entry queue 'set = {read_ahead_kb = 64}')"
    campaign thin pool "$(entry lvm 'pool = "40M"' 'size = "1G"')"
}

refused() { # device line…
    device=$1
    shift
    run foreign "$device" "$(entry lvm "$@")"
    [ "$code" = 6 ] || { fail "exit code $code"; cat foreign.log; }
    grep -q 'vg-test' foreign.log || { fail 'not told'; cat foreign.log; }
    rm -rf foreign.campaign
}

foreign() {
    step 'a volume group of somebody else is refused, and nothing is touched'
    pvcreate --yes "/dev/$b" >/dev/null 2>&1 && vgcreate vg-test "/dev/$b" >/dev/null 2>&1
    vgs --noheadings -o vg_name,vg_uuid >foreign.before 2>/dev/null
    refused b 'size = "16M"'
    refused c 'vg = "vg-test"' 'size = "16M"'
    vgs --noheadings -o vg_name,vg_uuid >foreign.after 2>/dev/null
    cmp -s foreign.before foreign.after || fail 'the foreign group was touched'

    step 'and used as it is where that is asked for'
    lvcreate --yes --size 16M --name theirs vg-test >/dev/null 2>&1
    run kept b "$(entry lvm 'vg = "vg-test"' 'keep = true')"
    is_done "$code" || { fail "exit code $code"; cat kept.log; }
    [ "$(lvs --noheadings -o lv_name vg-test 2>/dev/null | tr -d ' ')" = theirs ] ||
        fail 'their volume is gone'
    vgremove --yes vg-test >/dev/null 2>&1
    pvremove --yes "/dev/$b" >/dev/null 2>&1
    as_found 'a foreign group'
}

sets() {
    step 'RAID sets, with legs that agree before the replay begins'
    for level in 0 1 10; do
        campaign "raid$level" pool "$(entry md "level = $level")"
    done
    campaign degraded pool "$(entry md 'level = 1' 'degrade = 1')"
    campaign five pool "$(entry lvm 'count = 4' 'size = "12M"')
$(entry md 'level = 5' 'spares = 1' 'chunk = "16K"')"
}

leg() {
    step 'a leg fails beside the replay, and is put back'
    campaign leg pool "$(entry md 'level = 1')
$(entry fault 'kind = "fail-leg"' "device = \"/dev/$c\"" 'at = "5s"' 'for = "2s"')" 15s
    grep -q 'it was put right' "$(of_run leg fault.txt)" || fail 'the leg did not fail'
}

of_kind() { # device line…
    device=$1
    shift
    campaign mapped "$device" "$(entry dm "$@")"
    rm -rf mapped.campaign
}

mapped() {
    step 'mapped devices of each kind'
    of_kind b 'kind = "linear"' 'from = "1M"'
    of_kind b 'kind = "delay"' 'read-delay = "2ms"'
    of_kind b 'kind = "error"' 'from = "40M"' 'size = "1M"'
    of_kind b 'kind = "crypt"'
    of_kind pool 'kind = "log-writes"'
    of_kind pool 'kind = "cache"' 'mode = "writeback"'
}

flaky() {
    step 'a flaky device is a finding, and not a fault of the measurement'
    # It is up as long as the replay looks at it, and down once while the replay goes on.
    campaign flaky b "$(entry dm 'kind = "flakey"' 'up = "10s"' 'down = "2s"')" 14s
    grep -q '"measured"' "$(of_run flaky attempt.json)" ||
        { fail 'it was not measured'; cat "$(of_run flaky attempt.json)"; }
    [ "$(figure flaky failed)" -gt 0 ] || fail 'no request failed'
}

limits() {
    step 'limits of a control group of the unified hierarchy'
    campaign limits b "$(entry cgroup 'read-iops = 50' 'write-iops = 50')" 5s
    # Twice fifty for five seconds, and what the kernel lets through at first.
    [ "$(figure limits recorded)" -le 600 ] ||
        fail "$(figure limits recorded) requests: nothing was limited"
}

killed() {
    step 'a killed campaign is undone, wherever it was'
    killed_in "$(deep)" 1 6 9 14 up
}

ready
parts 'volumes foreign sets leg mapped flaky limits killed' "$@"
finish
