#!/bin/sh
# Device mapper over a disk, both recorded: every request is there twice, which is told, and
# `--unstack` leaves it once. And a partition: its requests only, counted from its start.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe null_blk nr_devices=1 gb=1 || skip 'no null_blk'
printf '0 131072 linear /dev/nullb0 2048\n' | dmsetup create mapped --noudevsync
dmsetup mknodes mapped

for interface in blktrace tracefs; do
    step "both layers by $interface"
    ioecho record /dev/mapper/mapped /dev/nullb0 -o "$interface.load" --to blkreplay --quiet \
        --interface "$interface" -- sh -c '. /vm/lib.sh; load /dev/mapper/mapped' \
        >"$interface.log" 2>&1 || { fail "exit code $?"; cat "$interface.log"; }
    # blkreplay's format holds one of the two devices only.
    grep -q 'made 400 requests' "$interface.log" || { fail 'not 400'; cat "$interface.log"; }
    grep -q 'unstack' "$interface.log" || { fail 'duplicates are not told'; cat "$interface.log"; }

    step "both layers by $interface, --unstack"
    ioecho record /dev/mapper/mapped /dev/nullb0 -o "$interface.once.load" --to blkreplay --quiet \
        --unstack --interface "$interface" -- sh -c '. /vm/lib.sh; load /dev/mapper/mapped' \
        >"$interface.log" 2>&1 || { fail "exit code $?"; cat "$interface.log"; }
    count=$(listed "$interface.once.load" | wc -l)
    [ "$count" = 200 ] || { fail "$interface: $count requests"; cat "$interface.log"; }
done
dmsetup remove mapped

# A mirror without a superblock and without mdadm: Documentation/admin-guide/md.rst.
mirror() { # device device
    modprobe raid1 && modprobe md_mod 2>/dev/null
    echo md_m >/sys/module/md_mod/parameters/new_array || return
    md=/sys/block/md_m/md
    echo none >$md/metadata_version && echo raid1 >$md/level && echo 2 >$md/raid_disks || return
    slot=0
    for leg; do
        cat "/sys/block/$leg/dev" >$md/new_dev || return
        echo 32768 >"$md/dev-$leg/size" && echo $slot >"$md/dev-$leg/slot" || return
        slot=$((slot + 1))
    done
    # There is nothing to bring into step.
    echo none >$md/resync_start && echo 32768 >$md/component_size &&
        echo active >$md/array_state
}

step 'a mirror over two loop devices'
for number in 3 4; do
    truncate -s 64M /tmp/leg$number
    losetup /dev/loop$number /tmp/leg$number
done
if mirror loop3 loop4; then
    number=$(cat /sys/block/md_m/dev)
    [ -b /dev/md_m ] || mknod /dev/md_m b "${number%:*}" "${number#*:}"
    for interface in blktrace tracefs; do
        for unstack in '' --unstack; do
            output=mirror.$interface$unstack
            ioecho record /dev/md_m /dev/loop3 /dev/loop4 -o "$output.csv" --quiet $unstack \
                --interface "$interface" -- sh -c '. /vm/lib.sh; load /dev/md_m' \
                >"$output.log" 2>&1 || { fail "exit code $?"; cat "$output.log"; }
            # A read goes to one leg, a write to both.
            wanted=$(awk -F , -v once="$unstack" 'NR > 1 && $6 == "md_m" {
                sum += once != "" ? 1 : $2 == "read" ? 2 : 3} END {print sum}' "$output.csv")
            [ "$(grep -c ',md_m,' "$output.csv")" = 200 ] || fail "$output: not 200 of the mirror"
            [ "$(($(wc -l <"$output.csv") - 1))" = "$wanted" ] ||
                { fail "$output: not $wanted in all"; cat "$output.log"; }
            [ -n "$unstack" ] || grep -q unstack "$output.log" ||
                { fail 'duplicates are not told'; cat "$output.log"; }
        done
    done
else
    fail 'no mirror'
fi

step 'a partition of a loop device'
truncate -s 64M /tmp/parted
# An MBR with one partition: sectors 2048 to 67583.
printf '\0\0\0\0\203\0\0\0\0\010\0\0\0\0\001\0' |
    dd of=/tmp/parted bs=1 seek=446 conv=notrunc 2>/dev/null
printf '\125\252' | dd of=/tmp/parted bs=1 seek=510 conv=notrunc 2>/dev/null
losetup -P /dev/loop6 /tmp/parted
sleep 1
if [ -b /dev/loop6p1 ]; then
    for interface in blktrace tracefs; do
        ioecho record /dev/loop6p1 -o "$interface.part.load" --to blkreplay --quiet \
            --interface "$interface" -- sh -c '. /vm/lib.sh; load /dev/loop6p1
                dd if=/dev/loop6 of=/dev/null bs=4k count=1 iflag=direct 2>/dev/null' \
            >"$interface.log" 2>&1 || { fail "exit code $?"; cat "$interface.log"; }
        listed "$interface.part.load" >"$interface.part"
        [ "$(wc -l <"$interface.part")" = 200 ] ||
            { fail "$interface: $(wc -l <"$interface.part") requests"; cat "$interface.log"; }
        awk '$2 + $3 > 32768 {exit 1}' "$interface.part" ||
            fail "$interface: sectors of the disk, not of the partition"
        nothing_left loop6
    done
else
    fail 'the partition did not appear'
fi
finish
