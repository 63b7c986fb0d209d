"""As fast as possible: ioecho against fio, at the same depth.

Both do the same number of random 4 KiB requests through io_uring with registered files and buffers.
The block tracepoints stay off: they cost more than the difference that is looked for. So each
tool's own count and duration are taken.
"""

import calendar
import json
import os
import random
import shutil
import subprocess
import time

import compare
import devices
import machine

KINDS = {"read": "R", "write": "W"}
BLOCK = 4096
# More than this is not needed to tell two speeds apart, and writes to zram are slow.
REQUESTS_PER_S = 60000
SIMULATED_REQUESTS = 4_000_000


def possible(ioecho):
    """Whether this ioecho has --timing."""
    done = subprocess.run([ioecho, "replay", "--help"], stdout=subprocess.PIPE, check=True)
    return b"--timing" in done.stdout


def _trace(ioecho, directory, name, requests, size, kind):
    """A native trace of random requests, all of them due a microsecond after each other."""
    load, native = os.path.join(directory, "load"), os.path.join(directory, name + ".parquet")
    dice, blocks, op = random.Random(1), size // BLOCK, KINDS[kind]
    with open(load, "w") as file:
        file.write("start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n")
        for n in range(requests):
            sector = dice.randrange(blocks) * 8
            file.write("%d.%06d000 ; %d ; 8 ; %s ; 0.0 ; 0.0\n" % (*divmod(n, 10**6), sector, op))
    subprocess.run([ioecho, "convert", load, native], check=True, stderr=subprocess.DEVNULL)
    os.unlink(load)
    return native


def _called(group, command):
    """What a command prints, run in the group whose processor time is counted."""
    process = group.start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        return process.communicate()[0].decode(errors="replace")
    finally:
        group.end(process)


def _ioecho(group, binary, native, device, depth, scratch):
    run = os.path.join(scratch, "run")
    shutil.rmtree(run, ignore_errors=True)
    devices.drop_cache(device)
    # Conflicts allowed, as fio allows them.
    command = [
        binary, "replay", native, "--target", device, "--destroy", device, "-o", run, "-q",
        "--timing", "afap", "--in-flight-max", str(depth), "--conflicts", "allow",
    ]
    text = _called(group, command)
    try:
        with open(os.path.join(run, "summary.json")) as file:
            summary = json.load(file)
    except OSError:
        raise RuntimeError("ioecho did not run:\n" + text) from None
    shutil.rmtree(run)
    return summary["engine"]["issued"] / (summary["achieved_duration_ns"] / 1e9)


def _fio(group, device, kind, depth, requests, size, batch):
    devices.drop_cache(device)
    command = [
        "fio", "--name=top", "--filename=" + device, "--rw=rand" + kind, "--bs=%d" % BLOCK,
        "--ioengine=io_uring", "--direct=1", "--fixedbufs=1", "--registerfiles=1", "--thread",
        "--iodepth=%d" % depth, "--norandommap", "--size=%d" % size, "--randrepeat=1",
        "--io_size=%d" % (requests * BLOCK), "--output-format=json",
    ]
    if batch:
        command += [
            "--iodepth_batch_submit=%d" % batch, "--iodepth_batch_complete_min=1",
            "--iodepth_batch_complete_max=%d" % depth,
        ]
    text = _called(group, command)
    try:
        return json.loads(text[text.index("{"):text.rindex("}") + 1])["jobs"][0][kind]["iops"]
    except (ValueError, KeyError):
        raise RuntimeError("fio did not run:\n" + text) from None


def _observed(turn, group, stall, options):
    """(what a turn says, why it does not count), repeated while it is disturbed."""
    for left in range(options["retries"], -1, -1):
        machine.wait_for_quiet(options["quiet_s"])
        probes = [machine.probe(stall)]
        before, used = machine.processor_times(), group.used()
        value = turn()
        now, after = group.used(), machine.processor_times()
        probes.append(machine.probe(stall))
        used = (now[0] - used[0], now[1] - used[1])
        disturbed = machine.disturbances(machine.account(before, after, used, probes))
        if not disturbed or not left:
            return value, disturbed
    return None, []


def line(found):
    """The turns of a depth in a line."""
    every = {turn: found[turn] + found["disturbed"][turn] for turn in found["disturbed"]}
    texts = ["%s %.0f" % (turn, compare.median(values)) for turn, values in every.items()]
    count = sum(map(len, found["disturbed"].values()))
    return ", ".join(texts) + (" [%d turns disturbed]" % count if count else "")


def measure(name, device, size, group, binaries, scratch, options):
    """All depths and kinds on one device. options: depths, rounds, seconds, quiet_s, retries."""
    ioecho = binaries["ioecho"]
    results, requests = [], REQUESTS_PER_S * options["seconds"]
    traces = {kind: _trace(ioecho, scratch, kind, requests, size, kind) for kind in KINDS}
    dice = random.Random(2)
    for kind in KINDS:
        for depth in options["depths"]:
            found = {"ioecho": [], "fio": [], "fio_batched": []}
            batch, disturbed = max(1, depth // 4), {name: [] for name in found}
            turns = {
                "ioecho": lambda: _ioecho(group, ioecho, traces[kind], device, depth, scratch),
                "fio": lambda: _fio(group, device, kind, depth, requests, size, 0),
                "fio_batched": lambda: _fio(group, device, kind, depth, requests, size, batch),
            }
            for _ in range(options["rounds"]):
                order = list(turns)
                dice.shuffle(order)
                for turn in order:
                    value, why = _observed(turns[turn], group, binaries["stall"], options)
                    (disturbed if why else found)[turn].append(value)
            ours, theirs = compare.median(found["ioecho"]), compare.median(found["fio"])
            found.update(device=name, kind=kind, depth=depth, requests=requests)
            found["disturbed"] = disturbed
            found["ratio"] = ours / theirs if ours and theirs else None
            results.append(found)
            print("top speed, %s, %s, depth %d: %s" % (name, kind, depth, line(found)), flush=True)
    for native in traces.values():
        os.unlink(native)
    return results


def _replayed_in(log):
    """Seconds from the line that says `started` to the one that says `replayed`."""
    at = {}
    with open(log) as file:
        for line in file:
            stamp, word = line.split(" ", 2)[:2]
            whole, _, fraction = stamp.rstrip("Z").partition(".")
            seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
            at[word.rstrip(":\n")] = seconds + float("0." + (fraction or "0"))
    return at["replayed"] - at["started"]


def simulated(ioecho, scratch):
    """Requests per second of wall-clock time on the simulated device, with everything recorded.

    From the start of the run until its last request was recorded, as the run's log says: reading
    the trace is in it, drawing the report is not.
    """
    size = 1 << 36
    native = _trace(ioecho, scratch, "simulated", SIMULATED_REQUESTS, size, "read")
    run = os.path.join(scratch, "run")
    shutil.rmtree(run, ignore_errors=True)
    target = "sim:size=64G,units=64,service=1us"
    subprocess.run(
        [ioecho, "replay", native, "--target", target, "-o", run, "-q", "--timing", "afap"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )
    took = _replayed_in(os.path.join(run, "log.txt"))
    with open(os.path.join(run, "summary.json")) as file:
        recorded = json.load(file)["recorded"]
    shutil.rmtree(run)
    os.unlink(native)
    return {"requests": recorded, "wall_s": took, "requests_per_s": recorded / took}
