#!/bin/sh
# Volumes that go over iSCSI and NVMe: target and initiator on one host, and on two, which are one
# machine here with undo files of their own. Whatever happens, it is left as it was found.
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

leg_fails() { # name target initiator
    campaign "$1" pool "$(entry md 'level = 1')
$(entry fault 'kind = "fail-leg"' "device = \"/dev/$c\"" 'at = "8s"' 'for = "2s"')
$2
$3" 15s
    grep -q 'it was put right' "$(of_run "$1" fault.txt)" || fail 'the leg did not fail'
    [ "$(figure "$1" failed)" = 0 ] || fail 'requests failed though the other leg was whole'
}

leg() {
    step 'a leg of the target fails while initiators replay over NVMe, and is put back'
    leg_fails leg "$(entry nvme-target 'transport = "tcp"')" "$(entry nvme-initiator)"
}

iscsi_leg() {
    step 'a leg of the target fails while initiators replay over iSCSI, and is put back'
    leg_fails iscsi-leg "$(entry iscsi-target)" "$(entry iscsi-initiator)"
}

killed() {
    step 'a killed campaign is undone, wherever it was'
    killed_in "$(across)" 2 6 20 40 up
}

# A campaign whose target is on one host and whose initiator on another.
write_across() { # name module duration [line…]
    name=$1
    module=$2
    span=$3
    shift 3
    cat >"$name.toml" <<END
name = "$name"
retries = 0
start.skew = "10s"
[hosts]
san = {launch = ["env", "IOECHO_UNDO_DIR=/var/lib/ioecho/undo/san"], directory = "/tmp/agents"}
n1 = {launch = ["env", "IOECHO_UNDO_DIR=/var/lib/ioecho/undo/n1"], directory = "/tmp/agents"}
[devices]
b = {host = "san", path = "/dev/$b", serial = "unplugged"}
[replay]
device = "b"
trace = "gen:random?read=50&size=4k&area=4M&endless=yes&volumes=2"
timing = "afap"
in-flight-max = 4
end-after = "$span"
$(entry lvm 'count = 2' 'size = "16M"')
$(for line; do printf '%s\n' "$line"; done)
$(entry "$module-initiator" 'hosts = ["n1"]')
END
}

# The same, run to its end.
across_hosts() { # name module line…
    name=$1
    module=$2
    shift 2
    write_across "$name" "$module" 2s "$@"
    code=0
    ioecho campaign run "$name.toml" --destroy b >"$name.log" 2>&1 || code=$?
    is_done "$code" || { fail "$name: exit code $code"; cat "$name.log" "$name.toml"; }
    as_found "$name"
}

two_hosts() {
    step 'a target on one host, an initiator on another'
    across_hosts two-nvme nvme \
        "$(entry nvme-target 'transport = "tcp"' 'portal = "127.0.0.1:4430"')"
    across_hosts two-iscsi iscsi "$(entry iscsi-target 'portal = "127.0.0.1:3262"')"
}

two_killed() {
    step 'a killed campaign across hosts is undone from the initiator on'
    for moment in 4 20 up; do
        write_across killed nvme 15s \
            "$(entry nvme-target 'transport = "tcp"' 'portal = "127.0.0.1:4431"')"
        ioecho campaign run killed.toml --destroy b --quiet >killed.log 2>&1 &
        campaign=$!
        case $moment in
        up) for _ in $(seq 3000); do
            [ -z "$(find /tmp/agents/spool -name run.toml 2>/dev/null)" ] || break
            usleep 50000
        done ;;
        *) until_lines "$campaign" "$moment" || fail "there were never $moment lines" ;;
        esac
        kill -KILL "$campaign" || fail 'it had ended before'
        wait "$campaign" 2>/dev/null
        # It undoes first.
        ioecho campaign resume killed.campaign >resume.log 2>&1 ||
            { fail "resume after $moment: $?"; cat resume.log; }
        as_found "killed across hosts after $moment"
        rm -rf killed.campaign
    done
}

ready_hosts
ready
parts 'nvme_volumes iscsi_volumes leg iscsi_leg two_hosts two_killed killed' "$@"
finish
