#!/usr/bin/env python3
"""What a recorder takes from the load that it records: ioecho beside trace-cmd.

    bench/record.py [--rate 100000] [--seconds 10] [--rounds 3] [--ioecho PROGRAM]

fio reads 4 KiB at random, at a fixed rate, from a loop device over a file in memory and from zram,
while nobody records (the rate that this host reaches), while `ioecho record` does, while
`trace-cmd record -e block` does, and while it does with ioecho's own choice of events and size of
buffers (`same events`), in turn. Printed are the requests that fio made and those in the
recording, lost events, the processor time that recording took, up to the last page, and that of the
whole process with what comes after (ioecho converts, trace-cmd compresses), and bytes.

Needs root, fio and losetup or zramctl; what is missing is skipped with a word. The devices are made
here, and go away again.

trace-cmd records into an instance of its own here. It begins by writing 1 to
/proc/sys/kernel/ftrace_enabled, which is 1 anyway, and by emptying filters of functions, which are
empty; a locked-down kernel refuses even that, and trace-cmd gives up. So it runs in a mount
namespace in which these writes go into a file. The block events themselves are allowed.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZE = 256 << 20


class Skipped(Exception):
    """What cannot be measured here, and why."""


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


class Loop:
    """A loop device over a file in memory."""

    name = "loop over tmpfs"

    def __enter__(self):
        self.directory = tempfile.mkdtemp(dir="/dev/shm")
        backing = Path(self.directory) / "backing"
        with backing.open("wb") as file:
            for _ in range(SIZE >> 20):
                file.write(os.urandom(1 << 20))
        self.path = run("losetup", "--find", "--show", str(backing))
        return self

    def __exit__(self, *_):
        run("losetup", "--detach", self.path)
        shutil.rmtree(self.directory)


class Zram:
    """Memory that is compressed; it has bios only."""

    name = "zram"

    def __enter__(self):
        self.path = run("zramctl", "--find", "--size", str(SIZE))
        run("dd", "if=/dev/urandom", f"of={self.path}", "bs=1M", f"count={SIZE >> 20}",
            "oflag=direct", "status=none")
        return self

    def __exit__(self, *_):
        run("zramctl", "--reset", self.path)


def fio(device, rate, seconds):
    """Requests made and requests a second."""
    answer = json.loads(run(
        "fio", "--name=load", f"--filename={device}", "--rw=randread", "--bs=4k", "--direct=1",
        "--ioengine=libaio", "--iodepth=64", "--iodepth_batch_submit=16",
        "--iodepth_batch_complete_min=1", "--iodepth_batch_complete_max=16", "--norandommap",
        f"--rate_iops={rate}", f"--runtime={seconds}", "--time_based", "--output-format=json",
    ))
    read = answer["jobs"][0]["read"]
    return read["total_ios"], read["iops"]


def wait(process):
    """Waits for a process and all of its own; seconds of the processors."""
    _, _, usage = os.wait4(process.pid, 0)
    return usage.ru_utime + usage.ru_stime


def by_nobody(device, arguments, _directory):
    made, rate = fio(device, arguments.rate, arguments.seconds)
    return {"recorder": "nobody", "made": made, "rate": rate}


def by_ioecho(device, arguments, directory):
    output = directory / "load.parquet"
    process = subprocess.Popen(
        [arguments.ioecho, "record", device, "-o", output, "--keep-raw"],
        stderr=subprocess.PIPE, text=True)
    process.stderr.readline()
    made, rate = fio(device, arguments.rate, arguments.seconds)
    process.send_signal(signal.SIGINT)
    process.stderr.read()
    whole = wait(process)
    raw = Path(f"{output}.recording")
    log = [json.loads(line) for line in (raw / "log.jsonl").read_text().splitlines()]
    cost = [entry for entry in log if entry["entry"] == "cost"][-1]
    cpus = [entry for entry in log if entry["entry"] == "stopped"][-1]["cpus"]
    found = json.loads(run(arguments.ioecho, "info", "--json", str(output)))
    return {
        "recorder": "ioecho", "made": made, "rate": rate, "found": found["requests"],
        "lost": sum(cpu["lost"] for cpu in cpus), "events": sum(cpu["read"] for cpu in cpus),
        "cpu": cost["cpu_ns"] / 1e9, "whole": whole, "bytes": cost["bytes"],
    }


# What ioecho records unless it is told otherwise (docs/record.md).
SAME = ["bio_queue", "bio_backmerge", "bio_frontmerge", "bio_complete", "split", "rq_issue",
        "rq_requeue", "rq_complete"]


def by_trace_cmd(device, arguments, directory):
    return traced("trace-cmd", ["-e", "block"], device, arguments, directory)


def by_trace_cmd_alike(device, arguments, directory):
    events = [word for name in SAME for word in ("-e", f"block:block_{name}")]
    return traced("same events", [*events, "-b", "65536"], device, arguments, directory)


def traced(recorder, words, device, arguments, directory):
    output = directory / "trace.dat"
    instance = f"bench-record-{os.getpid()}"
    switched_on = directory / "ftrace_enabled"
    switched_on.write_text("1")
    instance_path(instance).mkdir()
    refused = [Path("/proc/sys/kernel/ftrace_enabled"), *instance_path(instance).glob("set_ftrace_*")]
    # exec keeps the process, whose children are the recorders of the processors.
    script = "".join(f"mount --bind {switched_on} {path} && " for path in refused) + 'exec "$@"'
    process = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, "sh",
         "trace-cmd", "record", "-B", instance, *words, "-o", output],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=directory)
    try:
        time.sleep(2)
        if process.poll() is not None:
            raise Skipped(f"trace-cmd cannot record here: {process.stdout.read().strip()}")
        # Those that move pages; the first process only compresses what they brought.
        movers = Watched(children(process.pid))
        before = movers.total()
        made, rate = fio(device, arguments.rate, arguments.seconds)
        lost, read = counts(instance)
        process.send_signal(signal.SIGINT)
        # What is still in the buffers, half of them perhaps, is brought in now.
        while any(Path(f"/proc/{one}").exists() for one in movers.seconds):
            movers.total()
            time.sleep(0.001)
        during = movers.total() - before
        process.stdout.read()
        whole = wait(process)
    finally:
        remove(instance)
    return {
        "recorder": recorder, "made": made, "rate": rate, "lost": lost, "events": read,
        "cpu": during, "whole": whole, "bytes": output.stat().st_size,
    }


def counts(instance):
    """Events that a trace instance lost and had, as the kernel counts them."""
    lost = had = 0
    for path in instance_path(instance).glob("per_cpu/cpu*/stats"):
        stats = dict(line.split(": ", 1) for line in path.read_text().splitlines())
        lost += int(stats["overrun"]) + int(stats["dropped events"])
        had += int(stats["entries"]) + int(stats["read events"])
    return lost, had


def instance_path(instance):
    return Path("/sys/kernel/tracing/instances") / instance


def remove(instance):
    """Where trace-cmd may not do all that it wants it leaves its instance."""
    for _ in range(20):
        try:
            instance_path(instance).rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.2)
        else:
            return


def children(parent):
    return [int(word) for word in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


class Watched:
    """Seconds of the processors of processes, also when they have ended meanwhile."""

    def __init__(self, processes):
        self.seconds = dict.fromkeys(processes, 0.0)

    def total(self):
        for process in self.seconds:
            try:
                fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            ticks = int(fields[11]) + int(fields[12])
            self.seconds[process] = max(self.seconds[process], ticks / os.sysconf("SC_CLK_TCK"))
        return sum(self.seconds.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ioecho", default=str(ROOT / "target/dist/ioecho"))
    arguments = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("fio"):
        sys.exit("skipped: needs root and fio")
    recorders = [by_nobody, by_ioecho]
    if shutil.which("trace-cmd"):
        recorders += [by_trace_cmd, by_trace_cmd_alike]
    else:
        print("skipped: trace-cmd is not installed")
    print(f"{'device':16} {'recorder':11} {'requests/s':>10} {'made':>9} {'found':>9} "
          f"{'events':>9} {'lost':>7} {'cpu s':>7} {'whole s':>8} {'MiB':>7}")
    for kind in (Loop, Zram):
        try:
            device = kind().__enter__()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"skipped: {kind.name}: {error}")
            continue
        try:
            for _ in range(arguments.rounds):
                for recorder in recorders:
                    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
                        try:
                            row = recorder(device.path, arguments, Path(directory))
                        except Skipped as why:
                            print(f"skipped: {why}")
                            continue
                    print(f"{kind.name:16} {row['recorder']:11} {row['rate']:10.0f} "
                          f"{row['made']:9} {row.get('found', '-'):>9} {row.get('events', '-'):>9} "
                          f"{row.get('lost', '-'):>7} {row.get('cpu', 0):7.2f} "
                          f"{row.get('whole', 0):8.2f} {row.get('bytes', 0) / (1 << 20):7.1f}",
                          flush=True)
        finally:
            device.__exit__()


if __name__ == "__main__":
    main()
