# Functions of the tests that record what a script does with files; read with `. /vm/trees.sh`
# behind lib.sh.
# shellcheck shell=sh

tracing=/sys/kernel/tracing
# Where a test begins: a tmpfs.
memory=$PWD

need_calls() {
    command -v strace >/dev/null 2>&1 || skip 'no strace'
    grep -q '^ *e\[' "$tracing/README" 2>/dev/null || mount -t tracefs tracefs "$tracing"
}

# What lies below a directory: kind, size of a file, what a link says.
listed() { # directory [name to leave out]
    (cd "$1" && find . ! -path "./${2:-ioecho.tree}" | sort | while read -r name; do
        if [ -L "$name" ]; then echo "$name -> $(readlink "$name")"
        elif [ -d "$name" ]; then echo "$name/"
        else echo "$name $(stat -c %s "$name")"; fi
    done)
}

as_text() { # trace
    ioecho convert "$1" "$1.csv" >/dev/null 2>&1 || fail "$1 cannot be written as text"
}

# The operations of a trace and their lengths.
operations() { # trace
    as_text "$1"
    sed 1d "$1.csv" | cut -d , -f 2,5 | sort
}

# How many of each kind of operation there are, and their bytes. What comes out of a pipe is written
# in pieces that differ from time to time, so of reads and writes the bytes alone are compared.
amounts() { # trace
    as_text "$1"
    sed 1d "$1.csv" | awk -F , '
        {bytes[$2] += $5; calls[$2]++}
        END {for (op in calls) print op, op ~ /^(read|write)$/ ? "" : calls[op], bytes[op]}' | sort
}

# Records a script by strace, and again by event probes. It must leave the same tree DIRECTORY both
# times, which is written down in NAME.left; the recordings are NAME.strace.parquet and
# NAME.probes.parquet.
record_both() { # name script directory
    step "$1: recorded by strace"
    strace -f -ttt -T -y -o "$1.strace" sh "$2" || fail 'the script failed'
    listed "$3" >"$1.left"
    rm -rf "$3"
    ioecho convert "$1.strace" "$1.strace.parquet" >"$1.strace.log" 2>&1 ||
        { fail "exit code $?"; cat "$1.strace.log"; }
    step "$1: recorded by event probes"
    ioecho record --files --buffer 16M --keep-raw -o "$1.probes.parquet" -- sh "$2" \
        >"$1.probes.log" 2>&1 || { fail "exit code $?"; cat "$1.probes.log"; }
    listed "$3" >"$1.again"
    cmp -s "$1.left" "$1.again" ||
        { fail 'the script left another tree'; diff "$1.left" "$1.again" | head -n 10; }
    rm -rf "$3"
    grep -q ioecho "$tracing/dynamic_events" && fail 'probes are left'
    find "$tracing/instances" -maxdepth 1 -name 'ioecho-*' | grep -q . && fail 'an instance is left'
    grep -E 'lost by|guessed' "$1.probes.log"
}

# Makes a file system on a loop device in memory, mounted at /mnt/KIND. Of xfs 300 MB is the least.
loop_file_system() { # ext4|xfs
    truncate -s 400M "$memory/$1.image" && mkdir -p "/mnt/$1" && "mkfs.$1" -q "$memory/$1.image" &&
        modprobe "$1" && mount -o loop -t "$1" "$memory/$1.image" "/mnt/$1"
}

# Holds the two recordings against each other, as `operations` or `amounts` has them.
compare_both() { # name function
    step "$1: the same operations"
    "$2" "$1.strace.parquet" >"$1.strace.ops"
    "$2" "$1.probes.parquet" >"$1.probes.ops"
    if cmp -s "$1.strace.ops" "$1.probes.ops"; then
        echo "$(sed 1d "$1.probes.parquet.csv" | wc -l) operations"
    else
        fail "other operations by strace (<) than by probes (>)"
        diff "$1.strace.ops" "$1.probes.ops" | head -n 40
        cat "$1.strace.log"
    fi
}

# The requests of a run, as text, that failed.
failed_of() { # text
    awk -F , 'NR == 1 {for (i = 1; i <= NF; i++) at[$i] = i; next} $at["outcome"] != 0' "$1"
}

# Replays a recording below a directory, where nothing may fail and the tree that NAME.left tells
# must come into being: that which the script left in the directory TREE.
replay_one() { # name strace|probes tree directory timing
    name=$1
    by=$2
    tree=$3
    below=$4/$1.$2
    ioecho replay "$name.$by.parquet" --quiet --timing "$5" -o "run.$name.$by" \
        --target "tree:$below" >replay.log 2>&1
    # A slow machine may be late (the verdict's codes), which is not what is tested.
    operations "$name.$by.parquet" >recorded.ops
    operations "run.$name.$by/requests.parquet" >replayed.ops
    cmp -s recorded.ops replayed.ops || { fail "the replay of $name by $by did something else"
        diff recorded.ops replayed.ops | head -n 10; cat replay.log; }
    failed=$(failed_of "run.$name.$by/requests.parquet.csv")
    [ -z "$failed" ] || { fail "calls of the replay of $name by $by failed"
        echo "$failed" | head -n 10; }
    listed "$below/$tree" >replayed.left 2>/dev/null
    cmp -s "$name.left" replayed.left || { fail "the replay of $name by $by left another tree"
        diff "$name.left" replayed.left | head -n 10; cat replay.log; }
    rm -rf "run.$name.$by" "$below"
}

# Replays both recordings below a directory.
replay_both() { # name tree directory timing
    step "$1: the same trees on $(stat -f -c %T "$3"), --timing $4"
    replay_one "$1" strace "$2" "$3" "$4"
    replay_one "$1" probes "$2" "$3" "$4"
}

# A repository with what a clone meets: several directories, a link, an executable, a large file, a
# tag, two branches, packed objects and loose ones. Its dates are fixed, and so are its names.
make_repository() { # directory
    GIT_AUTHOR_DATE='2024-05-06T07:08:09Z'
    GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE
    export GIT_AUTHOR_DATE GIT_COMMITTER_DATE GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org
    export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.org
    mkdir "$1"
    (
        cd "$1" && git init -q -b main . || exit 1
        for part in engine engine/deep docs; do
            mkdir -p $part
            for file in one two three four; do
                seq 1 400 | sed "s|^|$part/$file |" >$part/$file.c
            done
        done
        head -c 300000 /bin/busybox >engine/large.bin
        chmod 755 docs/one.c
        ln -s engine/one.c shortcut
        git add . && git commit -q -m first && git tag v1 && git gc -q || exit 1
        echo changed >>engine/two.c
        git commit -q -a -m second && git branch side
    ) || fail 'no repository could be made'
}

# A script that works like a build by cargo: a lock, units compiled at the same time, parts written
# under names of their own, linked together and renamed, links into a directory of an incremental
# build, fingerprints with times, a program that is linked to where it is found.
write_build() { # file
    cat >"$1" <<'SCRIPT'
set -e
mkdir tree
cd tree
mkdir -p src/lib target/debug
for crate in alpha beta gamma delta top; do
    seq 1 900 | sed "s|^|$crate |" >src/lib/$crate.rs
done
cd target/debug
: >.cargo-lock
mkdir deps incremental .fingerprint build
compile() { # crate, what it needs
    crate=$1
    shift
    mkdir .fingerprint/$crate incremental/$crate incremental/$crate/s-working
    touch -d '2024-05-06 07:08:09' .fingerprint/$crate/invoked.timestamp
    for part in 0 1 2; do
        { cat ../../src/lib/$crate.rs; for needed; do cat deps/lib$needed.rmeta; done; } \
            >deps/$crate.$part.tmp
        mv deps/$crate.$part.tmp deps/$crate.$part.rcgu.o
        ln deps/$crate.$part.rcgu.o incremental/$crate/s-working/$part.o
    done
    head -c 2000 ../../src/lib/$crate.rs >deps/lib$crate.rmeta.tmp
    mv deps/lib$crate.rmeta.tmp deps/lib$crate.rmeta
    cat deps/$crate.?.rcgu.o >deps/lib$crate.rlib.tmp
    mv deps/lib$crate.rlib.tmp deps/lib$crate.rlib
    rm deps/$crate.?.rcgu.o
    mv incremental/$crate/s-working incremental/$crate/s-done
    echo "$crate: ../../src/lib/$crate.rs" >deps/$crate.d
    echo fresh >.fingerprint/$crate/dep-lib
    touch -d '2024-05-06 07:08:10' .fingerprint/$crate/dep-lib
}
compile alpha & first=$!
compile beta & second=$!
compile gamma & third=$!
wait $first && wait $second && wait $third
compile delta alpha beta & first=$!
mkdir build/script && echo 'rerun-if-changed' >build/script/output & second=$!
wait $first && wait $second
compile top delta gamma
cat deps/lib*.rlib >deps/top.tmp
chmod 755 deps/top.tmp
mv deps/top.tmp deps/top
ln deps/top top
cp top ../top.saved
ln -s debug/top ../latest
test ! -e deps/top.dwp
find deps -name '*.rmeta' | sort >listing
rm -rf build
dd if=top of=section bs=4096 count=3 skip=2 seek=1 conv=notrunc,fsync 2>/dev/null
SCRIPT
}
