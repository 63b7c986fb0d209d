"""What the machine does besides: processor time, and who else takes it.

A late request says something about the tool only if the tool had the processor. So each run is
watched: what its processes used, what other programs used, what the host stole, and gaps in a loop
that spins on every processor right before and right after.
"""

import contextlib
import ctypes
import os
import platform
import resource
import signal
import subprocess
import time

TICKS = os.sysconf("SC_CLK_TCK")
PROBE_MS = 200
# A run is disturbed above these.
STEAL_PERCENT_MAX = 1.0
FOREIGN_PERCENT_MAX = 6.0
STALL_PERCENT_MAX = 2.0
STALL_MS_MAX = 4.0
# include/uapi/linux/prctl.h
PR_SET_CHILD_SUBREAPER = 36


def processor_times():
    """Seconds since boot, all processors together: user, system (with interrupts), steal, idle."""
    with open("/proc/stat") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(
            int, file.readline().split()[1:9]
        )
    return {
        "user": (user + nice) / TICKS,
        "system": (system + irq + softirq) / TICKS,
        "steal": steal / TICKS,
        "idle": (idle + iowait) / TICKS,
    }


def unified():
    """Where control groups of version 2 are mounted."""
    with open("/proc/mounts") as file:
        for line in file:
            fields = line.split()
            if fields[2] == "cgroup2":
                return fields[1]
    return None


class Group:
    """The processes of one tool: their processor time, and their end.

    Some tools start thousands of processes and never wait for them, which no parent's `wait4`
    counts; the control group does. Where none can be made, this process adopts the orphans instead
    and counts those that it can wait for.
    """

    def __init__(self):
        self.path = None
        groups = unified()
        if groups:
            path = "%s/ioecho-fidelity-%d" % (groups, os.getpid())
            with contextlib.suppress(OSError):
                os.makedirs(path, exist_ok=True)
                self.path = path
        self.how = "control group" if self.path else "wait4 of adopted processes"
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def used(self):
        """(all, user) seconds so far."""
        if self.path:
            with open(self.path + "/cpu.stat") as file:
                stat = dict(line.split() for line in file)
            return int(stat["usage_usec"]) / 1e6, int(stat["user_usec"]) / 1e6
        use = resource.getrusage(resource.RUSAGE_CHILDREN)
        return use.ru_utime + use.ru_stime, use.ru_utime

    def start(self, command, **options):
        """Starts a command in the group, as the leader of a session."""
        def join():
            if self.path:
                with open(self.path + "/cgroup.procs", "w") as file:
                    file.write(str(os.getpid()))
        return subprocess.Popen(command, preexec_fn=join, start_new_session=True, **options)

    def end(self, process):
        """Kills what is left of a command and waits for all of it. Says whether anything was."""
        left = False
        for _ in range(200):
            numbers = self._members()
            if process.poll() is None:
                numbers.add(process.pid)
            if not numbers:
                break
            left = True
            if not self.path:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            for number in numbers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            self._reap(process)
            time.sleep(0.05)
        process.wait()
        self._reap(process)
        return left

    def _members(self):
        if not self.path:
            return set()
        with open(self.path + "/cgroup.procs") as file:
            return {int(line) for line in file}

    def _reap(self, process):
        """Waits for adopted processes that have ended."""
        process.poll()
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass

    def close(self):
        if self.path:
            with contextlib.suppress(OSError):
                os.rmdir(self.path)


def probe(stall):
    """(share of time lost in percent, longest gap in ms) while every processor spins."""
    done = subprocess.run([stall, str(PROBE_MS)], stdout=subprocess.PIPE, check=True)
    lost, longest, processors = 0, 0, 0
    for line in done.stdout.decode().splitlines():
        _, lost_us, longest_us = map(int, line.split())
        lost, longest, processors = lost + lost_us, max(longest, longest_us), processors + 1
    return 100 * lost / (processors * PROBE_MS * 1000), longest / 1000


def wait_for_quiet(seconds):
    """Until the machine was nine tenths idle for half a second, but at most so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = processor_times()
        time.sleep(0.5)
        after = processor_times()
        spent = {name: after[name] - before[name] for name in after}
        if spent["idle"] >= 0.9 * sum(spent.values()):
            return True
    return False


def account(before, after, used, probes):
    """The machine's side of a run.

    before, after: of processor_times(); used: (all, user) seconds of the tool; probes: of probe().
    """
    spent = {name: after[name] - before[name] for name in after}
    whole = sum(spent.values()) or 1
    # The storage stack works in kernel threads, which have no user time: what is left is others'.
    foreign = max(0.0, spent["user"] - used[1])
    return {
        "tool_cpu_s": used[0],
        "machine_busy_s": spent["user"] + spent["system"],
        "steal_percent": 100 * spent["steal"] / whole,
        "foreign_percent": 100 * foreign / whole,
        "stall_percent": max(lost for lost, _ in probes),
        "stall_max_ms": max(longest for _, longest in probes),
    }


def disturbances(figures):
    """Why a run does not count; empty if it does."""
    limits = (
        ("steal_percent", STEAL_PERCENT_MAX, "the host stole %.1f %% of the processor time"),
        ("foreign_percent", FOREIGN_PERCENT_MAX, "other programs used %.1f %%"),
        ("stall_percent", STALL_PERCENT_MAX, "a spinning thread lost %.1f %% of its time"),
        ("stall_max_ms", STALL_MS_MAX, "a spinning thread stood still for %.1f ms"),
    )
    return [text % figures[name] for name, limit, text in limits if figures[name] > limit]


def facts():
    """The machine, for the results."""
    model, hypervisor = "", False
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name") and not model:
                model = line.split(":", 1)[1].strip()
            hypervisor |= line.startswith("flags") and " hypervisor" in line
    with open("/proc/meminfo") as file:
        memory = int(file.readline().split()[1]) * 1024
    return {
        "kernel": platform.release(), "processor": model, "processors": os.cpu_count(),
        "virtual": hypervisor, "memory_bytes": memory,
    }
