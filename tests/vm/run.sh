#!/bin/sh
# Runs a command inside a small virtual machine and gives its exit code.
#
# Half of what a recorder has to cope with needs a kernel that may do everything: no lockdown,
# loadable drivers, devices that vanish. A developer's machine and a CI runner often may not, and
# should not be experimented with. So this boots a distribution's kernel under plain emulation,
# with nothing but an initramfs, in well under a minute. See README.md beside this file.
#
#   tests/vm/run.sh COMMAND…     COMMAND is run by a shell inside, in /work (a tmpfs)
#   tests/vm/run.sh              builds what is cached and nothing else
#
# Exit code: that of COMMAND; 77 where no machine can be built here, with a word why.
# Settings: IOECHO_VM_CACHE (directory), IOECHO_VM_PACKAGE (the kernel's Debian package),
# IOECHO_VM_KERNEL and IOECHO_VM_MODULES (a kernel image and its lib/modules/VERSION instead),
# IOECHO_VM_BINARY (ioecho, default target/debug/ioecho), IOECHO_VM_FILES (further files, which
# lie in /host inside), IOECHO_VM_TIMEOUT (seconds, default 600), IOECHO_VM_MEMORY (MiB),
# IOECHO_VM_DISKS (a directory for the machine's disks, which stay there for its next boot),
# IOECHO_VM_CUT=yes (the machine loses its power when the command asks for it: see power.sh),
# IOECHO_VM_APPEND (further words for the kernel, such as lockdown=integrity), IOECHO_VM_FETCH (no:
# nothing is fetched or installed).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
cache=${IOECHO_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/ioecho-vm}
binary=${IOECHO_VM_BINARY:-$top/target/debug/ioecho}
fetch=${IOECHO_VM_FETCH:-yes}

# Programs that are copied with their libraries where they exist.
programs='blktrace blkparse btt fio trace-cmd dmsetup losetup blkid wipefs fallocate mkfs.ext4
    mkfs.xfs mdadm lvm thin_check iscsiadm iscsid nvme strace git git-upload-pack'
# Names under which lvm is called.
lvm_names='pvs vgs lvs pvcreate pvremove vgcreate vgremove vgchange lvcreate lvremove'
# Drivers that are copied with what they need.
drivers='null_blk loop virtio_blk virtio_pci dm-mod dm-delay dm-flakey dm-log-writes dm-cache
    dm-cache-smq dm-crypt dm-thin-pool scsi_debug sd_mod zram brd raid0 raid1 raid10 raid456 ext4
    xts aesni-intel target_core_mod target_core_iblock target_core_file iscsi_target_mod tcm_loop
    iscsi_tcp nvmet nvmet-tcp nvme-loop nvme-tcp xfs nfsd nfs nfsv3 nfsv4'

say() { printf 'tests/vm: %s\n' "$*" >&2; }
skip() {
    printf 'skipped: %s\n' "$*" >&2
    exit 77
}

# The package manager may put programs into places that a plain user does not look at.
PATH=$PATH:/usr/sbin:/sbin
export PATH

need() { # program package
    command -v "$1" >/dev/null 2>&1 && return 0
    if [ "$fetch" = yes ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        say "installing $2"
        DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$2" \
            >"$cache/apt.log" 2>&1 || true
    fi
    command -v "$1" >/dev/null 2>&1 ||
        skip "$1 is missing and could not be installed (Debian's package: $2)"
}

# The newest cloud kernel that the package lists know of.
newest_kernel() {
    apt-cache search --names-only '^linux-image-[0-9].*-cloud-amd64$' 2>/dev/null |
        awk '/signed/ && !/unsigned/ {print $1}' | sort -V | tail -n 1
}

fetch_kernel() {
    kernel=$cache/kernel
    if [ -n "${IOECHO_VM_KERNEL:-}" ]; then
        image=$IOECHO_VM_KERNEL
        modules=${IOECHO_VM_MODULES:?names lib/modules/VERSION of IOECHO_VM_KERNEL}
        return
    fi
    wanted=${IOECHO_VM_PACKAGE:-}
    if [ ! -s "$kernel/package" ] ||
        { [ -n "$wanted" ] && [ "$wanted" != "$(cat "$kernel/package")" ]; }; then
        command -v dpkg-deb >/dev/null 2>&1 ||
            skip 'no Debian tools to unpack a kernel with; set IOECHO_VM_KERNEL instead'
        [ "$fetch" = yes ] || skip 'no kernel was fetched before (tests/vm/run.sh fetches one)'
        [ -n "$wanted" ] || wanted=$(newest_kernel)
        [ -n "$wanted" ] || skip 'the package lists know no linux-image-*-cloud-amd64'
        rm -rf "$kernel" "$cache/base.key"
        mkdir -p "$kernel/download"
        say "fetching $wanted"
        (cd "$kernel/download" && apt-get download "$wanted" >"$cache/apt.log" 2>&1) ||
            skip "$wanted cannot be downloaded ($(tail -n 1 "$cache/apt.log"))"
        dpkg-deb -x "$kernel"/download/*.deb "$kernel"
        rm -rf "$kernel/download"
        printf '%s\n' "$wanted" >"$kernel/package"
    fi
    image=$(echo "$kernel"/boot/vmlinuz-*)
    modules=$(echo "$kernel"/lib/modules/*)
}

# Copies a file to the same place below the new root, with the place that links lead to.
take() {
    [ -e "$root$1" ] && return
    mkdir -p "$root$(dirname "$1")"
    cp -L "$1" "$root$1"
}

take_program() {
    found=$(command -v "$1" 2>/dev/null) || return 0
    take "$found"
    ldd "$found" 2>/dev/null | grep -o '/[^ )]*' | while read -r library; do
        take "$library"
    done
}

build_base() {
    key=$( (
        cat "$0" "$here/init"
        printf '%s\n' "$image"
        cat "$kernel/package" 2>/dev/null
        # What was installed since belongs into it.
        for program in $programs; do command -v "$program"; done
    ) | cksum)
    [ -s "$cache/base.cpio" ] && [ "$key" = "$(cat "$cache/base.key" 2>/dev/null)" ] && return
    say "building the initramfs from $(basename "$image")"
    root=$cache/root
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/work" \
        "$root/run" "$root/etc" "$root/host" "$root/var" "$root/root"
    cp "$(command -v busybox)" "$root/bin/busybox"
    cp "$here/init" "$root/init"
    chmod +x "$root/init"
    for program in $programs; do take_program "$program"; done
    lvm=$(command -v lvm) && for name in $lvm_names; do
        ln -sf lvm "$root$(dirname "$lvm")/$name"
    done

    # What git puts into a new repository.
    [ ! -d /usr/share/git-core/templates ] || {
        mkdir -p "$root/usr/share/git-core"
        cp -rL /usr/share/git-core/templates "$root/usr/share/git-core/"
    }

    version=$(basename "$modules")
    target=$root/lib/modules/$version
    mkdir -p "$target"
    for list in modules.builtin modules.order; do
        [ ! -e "$modules/$list" ] || cp "$modules/$list" "$target/"
    done
    # All drivers of the kinds that hold the wanted ones: what they need is among these.
    (cd "$modules" && find kernel/drivers/block kernel/drivers/md kernel/drivers/scsi \
        kernel/drivers/target kernel/drivers/nvme \
        kernel/drivers/virtio kernel/drivers/ata kernel/fs/ext4 kernel/fs/jbd2 kernel/fs/mbcache* \
        kernel/fs/xfs kernel/fs/nfs kernel/fs/nfsd kernel/fs/nfs_common kernel/fs/lockd \
        kernel/fs/netfs kernel/net/sunrpc kernel/net/dns_resolver \
        kernel/fs/configfs kernel/lib kernel/crypto kernel/mm kernel/arch \
        -name '*.ko*' 2>/dev/null) | while read -r module; do
        mkdir -p "$target/$(dirname "$module")"
        case $module in
        *.xz) xz -dc "$modules/$module" >"$target/${module%.xz}" ;;
        *.zst) zstd -qdc "$modules/$module" >"$target/${module%.zst}" ;;
        *) cp "$modules/$module" "$target/$module" ;;
        esac
    done
    busybox depmod -b "$root" "$version" 2>"$cache/depmod.log" ||
        skip "busybox cannot list the modules: $(tail -n 1 "$cache/depmod.log")"
    keep_only "$target"
    (cd "$root" && find . | busybox cpio -o -H newc 2>/dev/null) >"$cache/base.cpio"
    printf '%s\n' "$key" >"$cache/base.key"
}

# Throws away every driver that none of the wanted ones needs.
keep_only() {
    wanted=$cache/wanted
    : >"$wanted"
    for driver in $drivers; do
        # modules.dep: "path: what it needs"; names of files and modules differ in dashes.
        pattern=$(printf '%s' "$driver" | sed 's/[-_]/[-_]/g')
        grep -E "/$pattern\.ko:" "$1/modules.dep" | tr -d ':' | tr ' ' '\n' >>"$wanted" || true
    done
    sort -u "$wanted" | sed '/^$/d' >"$wanted.all"
    (cd "$1" && find kernel -name '*.ko') | grep -vxFf "$wanted.all" | while read -r module; do
        rm "$1/$module"
    done
    busybox depmod -b "$root" "$(basename "$1")"
}

# What changes from call to call lies in an archive of its own, which the kernel unpacks after.
build_extra() {
    extra=$run/extra
    mkdir -p "$extra/bin" "$extra/host" "$extra/vm" "$extra/etc"
    if [ -x "$binary" ]; then
        if [ -z "$(find "$cache/stripped" -newer "$binary" 2>/dev/null)" ] ||
            [ "$binary" != "$(cat "$cache/stripped.of" 2>/dev/null)" ]; then
            strip -o "$cache/stripped.new" "$binary" 2>/dev/null ||
                cp "$binary" "$cache/stripped.new"
            mv "$cache/stripped.new" "$cache/stripped"
            printf '%s\n' "$binary" >"$cache/stripped.of"
        fi
        cp "$cache/stripped" "$extra/bin/ioecho"
        root=$extra
        ldd "$binary" 2>/dev/null | grep -o '/[^ )]*' | while read -r library; do
            take "$library"
        done
    fi
    cp "$here"/*.sh "$extra/vm/"
    for file in ${IOECHO_VM_FILES:-}; do cp -L "$file" "$extra/host/"; done
    printf '%s\n' "$*" >"$extra/etc/command"
    (cd "$extra" && find . | busybox cpio -o -H newc 2>/dev/null) >"$run/extra.cpio"
    cat "$cache/base.cpio" "$run/extra.cpio" >"$run/initramfs"
    rm -rf "$extra" "$run/extra.cpio"
}

# Ends the machine as a power cut does, as soon as its command asks for it.
cut_power() {
    while [ -d "$run" ] && ! grep -q '^code' "$run/result"; do
        if grep -q '^cut' "$run/result"; then
            kill -KILL "$(cat "$run/pid")"
            return
        fi
        sleep 0.05
    done
}

boot() {
    : >"$run/result"
    disks=${IOECHO_VM_DISKS:-$run}
    mkdir -p "$disks"
    truncate -s 512M "$disks/disk"
    # A second disk, which a test may pull out, and a third.
    truncate -s 64M "$disks/unplugged" "$disks/third"
    [ "${IOECHO_VM_CUT:-}" != yes ] || cut_power &
    # The emulated processor without cmpxchg16b: with it a guest panics now and then. The check of
    # its timer fails on a busy host.
    nice timeout "${IOECHO_VM_TIMEOUT:-600}" qemu-system-x86_64 \
        -accel tcg,thread=multi -cpu max,-cx16 -smp 2 -m "${IOECHO_VM_MEMORY:-2048}" \
        -nodefaults -display none -no-reboot \
        -kernel "$image" -initrd "$run/initramfs" \
        -append "console=ttyS0 panic=-1 mitigations=off no_timer_check quiet ${IOECHO_VM_APPEND:-}" \
        -drive "file=$disks/disk,if=virtio,format=raw,cache=unsafe" \
        -blockdev "driver=file,filename=$disks/unplugged,node-name=unplugged" \
        -device virtio-blk-pci,drive=unplugged,serial=unplugged \
        -blockdev "driver=file,filename=$disks/third,node-name=third" \
        -device virtio-blk-pci,drive=third,serial=third \
        -pidfile "$run/pid" \
        -serial "file:$run/console" -serial stdio -serial "file:$run/result" \
        </dev/null || return $?
}

mkdir -p "$cache"
[ "$(uname -m)" = x86_64 ] || skip 'this is no x86_64 machine'
need qemu-system-x86_64 qemu-system-x86
need busybox busybox-static
need xz xz-utils
fetch_kernel
# Two calls at once must not build the same files.
exec 8>"$cache/lock"
flock 8
build_base
[ "$#" -gt 0 ] || exit 0

run=$(mktemp -d "$cache/run.XXXXXX")
trap 'rm -rf "$run"' EXIT
trap 'exit 130' INT TERM
build_extra "$@"
flock -u 8

for attempt in 1 2; do
    ended=0
    boot || ended=$?
    code=$(sed -n 's/^code \([0-9][0-9]*\).*/\1/p' "$run/result")
    [ -z "$code" ] || exit "$code"
    # The power was cut, as it was asked for.
    ! grep -q '^cut' "$run/result" || exit 0
    # A guest that never came so far as to begin is the emulation's fault, not the test's.
    if grep -q '^begun' "$run/result" || [ "$attempt" = 2 ]; then break; fi
    say 'the machine did not come up; trying once more'
done
say "the machine ended without a result (qemu: $ended); the end of its console:"
tail -n 30 "$run/console" >&2
exit 125
