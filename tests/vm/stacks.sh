# What campaign.sh, hosts.sh and cut.sh have in common; read with `. /vm/stacks.sh` after lib.sh.
# shellcheck shell=sh

# The disk with this serial number: in which order they appear is the emulator's business.
disk() { # serial
    for place in /sys/block/vd*; do
        [ "$(cat "$place/serial")" != "$1" ] || basename "$place"
    done
}

modprobe -a virtio_pci virtio_blk 2>/dev/null
b=$(disk unplugged)
c=$(disk third)

# Ends the test where a program was not installed when the machine was built.
installed() { # program…
    for program; do
        command -v "$program" >/dev/null || skip "'$program' was not installed at the build"
    done
}

# Loads what the tests need, and keeps the state before.
ready() {
    installed dmsetup lvm thin_check mdadm wipefs blkid fallocate mkfs.ext4
    modprobe -a dm-mod dm-delay dm-flakey dm-log-writes dm-cache dm-cache-smq dm-crypt xts \
        dm-thin-pool raid0 raid1 raid10 raid456 ext4 2>/dev/null
    # Nothing loads drivers by itself here, and nothing of the state before may depend on it.
    mkdir -p /run/lvm /run/lock/lvm /run/mdadm /etc/lvm /var/lib /var/tmp
    # There is no udev that would make the nodes of devices, and no dmeventd that looks after pools.
    echo 'activation {udev_sync=0 udev_rules=0 monitoring=0}
devices {obtain_device_list_from_udev=0}' >/etc/lvm/lvm.conf
    mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
    for facility in /dev/mapper/control /proc/mdstat; do
        [ -e "$facility" ] || skip "this kernel has no $facility"
    done
    state >before
}

# Loads targets and initiators of iSCSI and NVMe.
ready_hosts() {
    installed iscsiadm iscsid nvme
    modprobe -a target_core_mod target_core_iblock iscsi_target_mod iscsi_tcp sd_mod nvmet \
        nvmet-tcp nvme-loop nvme-tcp 2>/dev/null
    mount -t configfs configfs /sys/kernel/config 2>/dev/null
    for facility in target nvmet; do
        [ -d "/sys/kernel/config/$facility" ] || skip "this kernel has no $facility"
    done
    mkdir -p /etc/iscsi /etc/nvme /run/lock/iscsi
    # As the packages write them where they are installed.
    echo 'node.startup = manual' >/etc/iscsi/iscsid.conf
    echo 'InitiatorName=iqn.2026-01.test:vm' >/etc/iscsi/initiatorname.iscsi
    uuid=$(cat /proc/sys/kernel/random/uuid)
    echo "$uuid" >/etc/nvme/hostid
    echo "nqn.2014-08.org.nvmexpress:uuid:$uuid" >/etc/nvme/hostnqn
    # It obeys whom it can name.
    echo 'root:x:0:0:root:/root:/bin/sh' >/etc/passwd
    iscsid || fail 'iscsid does not begin'
}

# Everything that a set-up may leave behind.
state() {
    dmsetup ls 2>/dev/null | sort
    grep '^md' /proc/mdstat
    pvs --noheadings -o pv_name,vg_name 2>/dev/null
    vgs --noheadings -o vg_name,vg_tags 2>/dev/null
    for name in "$b" "$c"; do
        cat "/sys/block/$name/queue/scheduler" "/sys/block/$name/queue/read_ahead_kb"
        mdadm --examine "/dev/$name" 2>/dev/null | grep UUID
        blkid -p "/dev/$name" 2>/dev/null
    done
    cat /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null
    find /sys/fs/cgroup /var/tmp -name 'ioecho-*' 2>/dev/null
    grep ioecho- /proc/mounts
    find /sys/kernel/config/target /sys/kernel/config/nvmet -name '*ioecho*' 2>/dev/null
    ls /sys/kernel/config/target/core /sys/kernel/config/nvmet/ports 2>/dev/null
    find /etc/iscsi -name '*ioecho*' 2>/dev/null
    ls /sys/class/nvme /sys/class/iscsi_session 2>/dev/null
    losetup -a 2>/dev/null
    undo_files
}

undo_files() { find /var/lib/ioecho/undo -name '*.jsonl' 2>/dev/null; }

as_found() { # what
    state >after
    cmp -s before after || {
        fail "$1: the machine is not as it was found"
        diff before after
    }
}

# An entry of a stack.
entry() { # module line…
    printf '[[stack]]\nmodule = "%s"\n' "$1"
    shift
    for line; do printf '%s\n' "$line"; done
}

# Everything on one another.
deep() {
    entry lvm 'count = 2' 'size = "24M"'
    entry md 'level = 1'
    entry dm 'kind = "delay"' 'read-delay = "1ms"'
    entry cgroup 'read-iops = 500'
    entry fs 'type = "ext4"' 'size = "8M"'
}

# Two volumes that go over NVMe, and from there over iSCSI.
across() {
    entry lvm 'count = 2' 'size = "32M"'
    entry nvme-target 'transport = "tcp"'
    entry nvme-initiator
    entry iscsi-target
    entry iscsi-initiator
}

# Writes a campaign: `b` and `c` are the second and the third disk, and `pool` is both.
write() { # name device stack [duration [volumes]]
    cat >"$1.toml" <<END
name = "$1"
retries = 0
[devices]
b = {path = "/dev/$b", serial = "unplugged"}
c = {path = "/dev/$c", serial = "third"}
pool = {of = ["b", "c"]}
[replay]
device = "$2"
trace = "gen:random?read=50&size=4k&area=4M&endless=yes&volumes=${5:-1}"
# Without a schedule nothing is late, however slow the emulation is.
timing = "afap"
in-flight-max = 4
end-after = "${4:-1s}"
$3
END
}

# Writes a campaign and runs it; its exit code is $code.
run() { # name device stack [duration [volumes]]
    write "$@"
    code=0
    ioecho campaign run "$1.toml" --destroy "$2" >"$1.log" 2>&1 || code=$?
}

# Whether a campaign was done. Its figures may be unusable (14): an emulation is no quiet host.
is_done() { # code
    [ "$1" = 0 ] || [ "$1" = 14 ]
}

# The same, which must be done and leave the machine as it was.
campaign() { # name device stack [duration [volumes]]
    run "$@"
    is_done "$code" || {
        fail "$1: exit code $code"
        cat "$1.log" "$1.toml"
    }
    as_found "$1"
}

# A file of the only run of a campaign's only cell, and the number of a key in it.
of_run() { find "$1.campaign/cells" -path "*/1/$2"; } # name file
figure() { # name key
    sed -n "s/^ *\"$2\": *\([0-9]*\).*/\1/p" "$(of_run "$1" run/summary.json)" | head -n 1
}

# Waits until a process has begun to set something up.
until_setting_up() { # pid
    until_lines "$1" 1 || fail 'nothing is set up; the test shows nothing'
}

# The lines of all undo files.
lines() { undo_files | xargs -r cat | wc -l; }

# Waits until the undo files have so many lines. They are moments of the set-up itself, which come
# however slow or busy the machine is.
until_lines() { # pid lines
    begun=$(date +%s)
    while [ $(($(date +%s) - begun)) -lt 300 ]; do
        [ "$(lines)" -lt "$2" ] || return 0
        kill -0 "$1" 2>/dev/null || return 1
        usleep 5000
    done
    return 1
}

# Kills a campaign once its undo files have so many lines, each time anew: whatever it did, undo
# leaves the machine as it was found. The first line opens a file, and each change has two. Behind
# the last, `up` is the moment at which the replay goes on.
killed_in() { # stack volumes lines…
    stack=$1
    volumes=$2
    shift 2
    for moment; do
        write killed pool "$stack" 60s "$volumes"
        ioecho campaign run killed.toml --destroy pool --quiet >killed.log 2>&1 &
        campaign=$!
        kill_at "$campaign" "$moment"
        changes=$(undone undo.log)
        printf 'after %s lines, undone: %s\n' "$moment" "$changes"
        [ "$changes" -gt 0 ] || fail "nothing was undone after $moment lines"
        as_found "killed after $moment lines"
        rm -rf killed.campaign
    done
}

# Kills a campaign at a moment, and undoes.
kill_at() { # pid moment
    case $2 in
    up)
        until_setting_up "$1"
        for _ in $(seq 3000); do
            [ -z "$(find killed.campaign/cells -name run.toml 2>/dev/null)" ] || break
            kill -0 "$1" 2>/dev/null || break
            usleep 50000
        done
        ;;
    *) until_lines "$1" "$2" || { fail "there were never $2 lines"; cat killed.log; } ;;
    esac
    kill -KILL "$1" || fail "it had ended before $2"
    wait "$1" 2>/dev/null
    ioecho campaign undo >undo.log 2>&1 || { fail "undo after $2"; cat undo.log; }
}

# How much was undone.
undone() { grep -c '^undone' "$1"; } # log
