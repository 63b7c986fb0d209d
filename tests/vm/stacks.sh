# What campaign.sh and power.sh have in common; read with `. /vm/stacks.sh` after lib.sh.
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

# Loads what the tests need; whether it is there.
ready() {
    modprobe -a dm-mod dm-delay dm-flakey dm-log-writes dm-cache dm-cache-smq dm-crypt \
        dm-thin-pool raid0 raid1 raid10 raid456 ext4 2>/dev/null
    # Nothing loads drivers by itself here, and nothing of the state before may depend on it.
    mkdir -p /run/lvm /run/lock/lvm /run/mdadm /etc/lvm /var/lib /var/tmp
    # There is no udev that would make the nodes of devices.
    echo 'activation {udev_sync=0 udev_rules=0} devices {obtain_device_list_from_udev=0}' \
        >/etc/lvm/lvm.conf
    mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null
    [ -e /dev/mapper/control ] && [ -e /proc/mdstat ] && state >before
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
    find /etc/iscsi /var/lib/iscsi -name '*ioecho*' 2>/dev/null
    ls /sys/class/nvme /sys/class/iscsi_session 2>/dev/null
    losetup -a 2>/dev/null
    ls /var/lib/ioecho/undo/*.jsonl 2>/dev/null
    true
}

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

# The same, which must succeed and leave the machine as it was.
campaign() { # name device stack [duration [volumes]]
    run "$@"
    [ "$code" = 0 ] || {
        fail "$1: exit code $code"
        cat "$1.log" "$1.toml"
    }
    as_found "$1"
}
