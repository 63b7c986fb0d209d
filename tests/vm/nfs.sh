#!/bin/sh
# A tree of files on NFS: the kernel's server and its client (4.2) in one machine. What was recorded
# elsewhere is replayed there to the same tree; a tree is written, read back and verified, and what
# is damaged on the server is named; published parameter files run, where they are at hand (see
# README.md); a server that hangs is told, and the run ends.
#
#   nfs.sh [PART…]      the functions below; by default all of them
# shellcheck disable=SC2317 # parts are called by their names
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/trees.sh
. /vm/trees.sh

need_calls
served=/mnt/ext4
mounted=/mnt/nfs
far='2147483647' # the last second that the caches of the server know

# Lets the kernel serve a directory to this machine, without any of the programs that do so on a
# host: what they would answer the kernel is told beforehand.
serve() {
    modprobe -a nfsd nfs nfsv4 && mount -t nfsd nfsd /proc/fs/nfsd || return 1
    # So long files cannot be opened, in case that somebody has locks from before: the shortest.
    echo 10 >/proc/fs/nfsd/nfsv4gracetime
    # Versions before 4 need a port mapper.
    echo '-3 +4.2' >/proc/fs/nfsd/versions
    echo 'tcp 2049' >/proc/fs/nfsd/portlist || return 1
    echo "nfsd 127.0.0.1 $far here" >/proc/net/rpc/auth.unix.ip/channel
    # Ports above 1023, no check of directories above, a number of its own: 2 + 0x400 + 0x2000.
    echo "here $served $far 9218 65534 65534 0" >/proc/net/rpc/nfsd.export/channel
    printf 'here 1 \\x00000000 %s %s\n' "$far" "$served" >/proc/net/rpc/nfsd.fh/channel
    echo 8 >/proc/fs/nfsd/threads
}

attach() {
    mount -t nfs4 -o addr=127.0.0.1,clientaddr=127.0.0.1,vers=4.2,timeo=30 127.0.0.1:/ "$mounted"
}

# So that nothing comes from memory.
attach_anew() {
    umount "$mounted" || fail 'not unmounted'
    echo 3 >/proc/sys/vm/drop_caches
    attach || fail 'not mounted again'
}

# Does the runs of a family on the tree; a slow machine may be late.
on_tree() { # run flow…
    name=$1
    shift
    ioecho replay --quiet --target "$tree" --family family --destroy "$mounted/tree" \
        --verify final -o "$name" "$@" >"$name.log" 2>&1
    code=$?
    # A slow machine may be late.
    case $code in
    0 | 10 | 12) ;;
    *) fail "$name: exit code $code"; cat "$name.log" ;;
    esac
}

# What ioecho made of each run: validity, finding, and the checks that make it invalid.
verdicts() { # directory
    find "$1" -name summary.json | sort | while read -r summary; do
        awk -F '"' -v run="$(basename "$(dirname "$summary")")" '
            /"validity"/ {validity = $4}
            /"finding"/ && !finding {finding = $4}
            /"name"/ {check = $4}
            /"grade"/ {is_bad = $4 == "invalid"}
            /"measured"/ && is_bad {bad = bad "; " check ": " $4; is_bad = 0}
            END {print "  " run ": " validity ", " finding bad}' "$summary"
    done
}

recorded() {
    if command -v git >/dev/null 2>&1; then
        make_repository source
        echo 'git clone -q source linked' >linked.sh
        record_both linked linked.sh linked
        replay_both linked tmp/made/linked "$mounted" afap
    fi
    write_build build.sh
    record_both build build.sh tree
    replay_both build tmp/made/tree "$mounted" afap
    replay_both build tmp/made/tree "$mounted" dependency
}

verified() {
    step 'a tree written, read back and verified'
    tree="tree:$mounted/tree?depth=1&width=4&files=20&size=64k"
    on_tree made --flow 'f=files:format?do=mkdir,fill;threads=4'
    on_tree changed --end-after 5s \
        --flow 'w=files:write?size=4k&access=random&select=random;threads=2' \
        --flow 'd=files:delete?select=random;threads=1' \
        --flow 'c=files:create?select=random;threads=1' \
        --flow 'r=files:read?size=8k&access=random&select=random;threads=1'
    attach_anew
    ioecho verify changed >verify.log 2>&1 || { fail "verify: exit code $?"; cat verify.log; }
    tail -n 3 verify.log

    step 'what is damaged on the server is named'
    # Of some files the run wrote a part alone, and knows nothing of the rest.
    victims=$(cd "$served/tree" && find . -name '*.file' -size +60k)
    for victim in $victims; do
        printf damaged | dd of="$served/tree/$victim" bs=1 seek=9000 conv=notrunc 2>/dev/null
    done
    attach_anew
    ioecho verify changed >verify.log 2>&1
    code=$?
    [ "$code" = 15 ] || fail "verify: exit code $code"
    named=0
    for victim in $victims; do
        ! grep -q "${victim#./}" verify.log || named=$((named + 1))
    done
    [ "$named" -gt 0 ] || { fail 'no damaged file is named'; cat verify.log; }
    grep verdict verify.log
}

published() {
    step 'published parameter files'
    mkdir -p "$mounted/vdbench" /tmp/vdbench /opt/vdbench/conf
    mount -o bind "$mounted/vdbench" /tmp/vdbench
    # What the files for CephFS include.
    echo 'fsd=fsd1,anchor=/tmp/vdbench/ceph,depth=1,width=2,files=800,size=1m' \
        >/opt/vdbench/conf/include_disk
    found=
    for file in /host/*juicefs*vdbench_*.conf /host/*CephFS*; do
        [ -f "$file" ] || continue
        found=yes
        name=$(basename "$file")
        ioecho run "$file" --quiet --local --shrink 100 --set elapsed=2s --set warmup=0s \
            --set pause=0s -o "$name.results" >"$name.log" 2>&1
        code=$?
        echo "$name: exit code $code"
        # Runs that the machine was too slow for have no result (40).
        case $code in
        0 | 10 | 14 | 40) grep '^cells' "$name.log" ;;
        *) fail "$name: exit code $code"; cat "$name.log" ;;
        esac
        verdicts "$name.results"
        find "$name.results" -name requests.parquet | sort | while read -r requests; do
            as_text "$requests"
            failed_of "$requests.csv" | head -n 5
        done >failed
        [ ! -s failed ] || { fail "$name: operations failed"; cat failed; }
    done
    [ -n "$found" ] || echo 'skipped: they are not at hand (IOECHO_DATA)'
}

hung() {
    step 'a server that hangs'
    ioecho replay --quiet --target "tree:$mounted/hung?depth=1&width=2&files=50&size=64k" \
        --flow 'f=files:format?do=mkdir,fill;threads=2' -o filled >filled.log 2>&1
    ioecho replay --target "tree:$mounted/hung?depth=1&width=2&files=50&size=64k" --end-after 300s \
        --destroy "$mounted/hung" -o hung --flow 'g=files:setattr?select=random;threads=2' \
        >hung.log 2>&1 &
    replaying=$!
    # Its results are there when it has begun.
    for _ in $(seq 120); do
        [ ! -e hung/requests.parquet ] || break
        sleep 0.5
    done
    sleep 5
    echo 0 >/proc/fs/nfsd/threads
    sleep 3
    began=$(date +%s)
    kill -INT "$replaying"
    for _ in $(seq 120); do
        kill -0 "$replaying" 2>/dev/null || break
        sleep 0.5
    done
    if kill -0 "$replaying" 2>/dev/null; then
        fail 'the run does not end'
        kill -9 "$replaying"
    fi
    wait "$replaying"
    code=$?
    echo "ended with $code after $(($(date +%s) - began)) s"
    [ "$code" = 13 ] || { fail "exit code $code"; cat hung.log; }
    # Its results are there, and say that they are incomplete.
    ioecho info hung/requests.parquet >info.log 2>&1
    code=$?
    [ "$code" = 4 ] || { fail "info: exit code $code"; cat info.log; }
    grep -q 'does not let go' hung.log || { fail 'nobody tells'; cat hung.log; }
    # Nobody unmounts: the client would wait for the server, and the machine ends here.
}

loop_file_system ext4 || skip 'no ext4'
mkdir -p "$mounted" /tmp/made
serve || skip 'the kernel serves no files'
attach || skip 'no NFS'
cd /tmp/made || exit 1

parts 'recorded verified published hung' "$@"
finish
