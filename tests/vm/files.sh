#!/bin/sh
# What a script does with files is recorded by strace and by event probes: both are the same
# operations, and both are replayed to the tree that the script left. A killed recorder's probes are
# removed by the next one, and events that find no room are told.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

command -v strace >/dev/null 2>&1 || skip 'no strace'
grep -q '^ *e\[' /sys/kernel/tracing/README 2>/dev/null || mount -t tracefs tracefs /sys/kernel/tracing
tracing=/sys/kernel/tracing

mkdir -p /tmp/files
cd /tmp/files || exit 1
cat >script.sh <<'SCRIPT'
set -e
mkdir tree
cd tree
mkdir -p src/deep out
head -c 5000 /bin/busybox >src/a.c
head -c 200000 /bin/busybox >src/b.c
for name in a b; do
    cat src/$name.c >out/$name.tmp
    echo built >>out/log
    mv out/$name.tmp out/$name.o
done
cat out/*.o >out/app
cp out/app out/app.copy
ln -s app out/run
ln out/app.copy out/hard
chmod 755 out/app
cp -r out saved
(cd saved && rm a.o && truncate -s 77 b.o)
touch new
rm out/log
mkdir old && rmdir old
mv src/deep src/deeper
find src out saved -name '*.o' | wc -l >count
test ! -e missing
dd if=out/app of=part bs=4096 count=3 skip=2 seek=1 conv=notrunc,fsync 2>/dev/null
SCRIPT

# What lies below a directory: kind, size of a file, what a link says.
listed() { # directory
    (cd "$1" && find . | sort | while read -r name; do
        if [ -L "$name" ]; then echo "$name -> $(readlink "$name")"
        elif [ -d "$name" ]; then echo "$name/"
        else echo "$name $(stat -c %s "$name")"; fi
    done)
}

# The operations of a trace and their lengths.
operations() { # trace
    ioecho convert "$1" "$1.csv" >/dev/null 2>&1 || fail "$1 cannot be written as text"
    sed 1d "$1.csv" | cut -d , -f 2,5 | sort
}

step 'recorded by strace'
strace -f -ttt -T -y -o one.strace sh script.sh || fail 'the script failed'
listed tree >left
rm -rf tree
ioecho convert one.strace strace.parquet >strace.log 2>&1 || { fail 'convert'; cat strace.log; }

step 'recorded by event probes'
ioecho record --files --keep-raw -o probes.parquet -- sh script.sh >probes.log 2>&1 ||
    { fail "exit code $?"; cat probes.log; }
listed tree >left.again
cmp -s left left.again || fail 'the script left another tree'
rm -rf tree
grep -q ioecho "$tracing/dynamic_events" && fail 'probes are left'
find "$tracing/instances" -maxdepth 1 -name 'ioecho-*' | grep -q . && fail 'an instance is left'
grep -E 'lost|guessed' probes.log

step 'the same operations'
operations strace.parquet >strace.ops
operations probes.parquet >probes.ops
if cmp -s strace.ops probes.ops; then
    echo "$(wc -l <probes.ops) operations"
else
    fail "$(wc -l <strace.ops) operations by strace, $(wc -l <probes.ops) by probes"
    diff strace.ops probes.ops | head -n 40
    cat strace.log
fi

step 'the same trees'
for by in strace probes; do
    ioecho replay $by.parquet --quiet --timing afap -o run.$by --target tree:/tmp/again.$by \
        >replay.log 2>&1
    # A slow machine may be late (the verdict's codes), which is not what is tested.
    listed /tmp/again.$by/tmp/files/tree >left.$by 2>/dev/null
    cmp -s left left.$by || { fail "the replay of $by left another tree"
        diff left left.$by | head -n 10; cat replay.log; }
done

step 'a killed recorder'
ioecho record --files -o killed.parquet --quiet -- sleep 5 >/dev/null 2>&1 &
victim=$!
for _ in $(seq 100); do
    grep -q sys_enter_utimensat "$tracing/dynamic_events" && break
    sleep 0.2
done
sleep 1
kill -9 $victim
wait $victim 2>/dev/null
grep -q ioecho "$tracing/dynamic_events" || fail 'a kill leaves no probes, so nothing is tested'
ioecho record --clean
grep -q ioecho "$tracing/dynamic_events" && fail 'probes are left after a kill'

step 'events that find no room'
ioecho record --files --buffer 256K -o lost.parquet -- \
    dd if=/dev/zero of=/tmp/many bs=1 count=50000 >lost.log 2>&1
code=$?
[ $code = 31 ] || grep -q ' 0 lost' lost.log || fail "exit code $code"
if [ $code = 31 ]; then
    ioecho info lost.parquet | grep -q 'lost by the recorder' || fail 'the loss is not told'
else
    echo 'nothing was lost here'
fi

if [ -n "${IOECHO_VM_SHOW:-}" ]; then
    tar c probes.parquet.recording | gzip -9 | base64
fi
finish
