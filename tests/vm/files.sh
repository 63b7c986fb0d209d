#!/bin/sh
# What a script does with files is recorded by strace and by event probes: both are the same
# operations, and both are replayed to the tree that the script left. A killed recorder's probes are
# removed by the next one, and events that find no room are told.
set -u
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh
# shellcheck source=tests/vm/trees.sh
. /vm/trees.sh

need_calls
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

record_both script script.sh tree
compare_both script operations
mkdir again
replay_both script tmp/files/tree /tmp/files/again afap

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
    tar c script.probes.parquet.recording | gzip -9 | base64
fi
finish
