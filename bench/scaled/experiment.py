"""The cells of the experiment: one recording, one real run, or one replay each.

A whole experiment takes hours, and any of it may be cut off. So each cell is a line in
results.jsonl, written when it is done, and a cell that has its line is not measured again. A cell
that failed has its reason there, and is tried again the next time.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import sys

import figures
import lab
import machine
import models
import modes
import simulated
from applications import APPLICATIONS

KEY = ("part", "slow", "fast", "case", "mode", "repeat")
# The replay ran (docs/exit-codes.md): faithful, the device, the generator or the host was late, or
# invalid for another reason. The finding is in the line.
REPLAYED = (0, 10, 11, 12, 14)
STEAL_PERCENT_MAX = 1.0
# Requests of all sizes and kinds, at a rate that rises.
LEARNT = ("gen:random?read=60&size=4k:60,16k:20,64k:18,1M:2&flush=20&area=1G&dist=poisson"
          "&rate=%.0f-%.0f&duration=%ds")


class Results:
    """The lines of results.jsonl."""

    def __init__(self, path):
        self.path, self.lines = path, []
        if os.path.exists(path):
            with open(path) as file:
                for line in file:
                    # A line that was cut off by a crash is a cell that is not done.
                    with contextlib.suppress(json.JSONDecodeError):
                        self.lines.append(json.loads(line))
            self._rewrite()

    def _rewrite(self):
        """Without what failed: it is tried again."""
        self.lines = [line for line in self.lines if "failed" not in line]
        with open(self.path + ".new", "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in self.lines)
        os.replace(self.path + ".new", self.path)

    def has(self, key):
        return any(tuple(line[name] for name in KEY) == key for line in self.lines)

    def find(self, **wanted):
        return [line for line in self.lines
                if "failed" not in line
                and all(line[name] == value for name, value in wanted.items())]

    def add(self, line):
        self.lines.append(line)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")


def conditions(options, stand_ins):
    """What must be the same for all lines of one results.jsonl."""
    return {
        "quick": options.quick, "scale": options.scale, "seconds": options.seconds,
        "event": options.event, "stand_ins": {name: one.line for name, one in stand_ins.items()},
    }


def build(program):
    """Names a build of ioecho: its version says less than its bytes."""
    with open(program, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:12]


class Experiment:
    """What all cells share: the program, the stand-ins, where things are, what is done already."""

    def __init__(self, options, directory):
        self.options, self.ioecho, self.directory = options, options.ioecho, directory
        self.stand_ins = lab.stand_ins(options.device)
        self.modes = modes.Modes(self.ioecho)
        self.build = build(self.ioecho)
        self.run = os.path.join(directory, "run")
        self.recordings = os.path.join(options.out, "recordings")
        os.makedirs(self.recordings, exist_ok=True)
        self.results = Results(os.path.join(options.out, "results.jsonl"))

    def cell(self, measure, *key):
        """Measures a cell unless it is done. Says what came of it."""
        if self.results.has(key):
            return
        line = {**dict(zip(KEY, key)), "ioecho": self.build}
        before, load = machine.processor_times(), os.getloadavg()[0]
        try:
            line.update(measure())
            told = "%.1f s, %.0f IOPS, mean %.0f µs" % (
                line["duration_s"], line["iops"], line["mean_us"])
        except (lab.Failed, lab.Skipped, OSError) as error:
            line["failed"] = str(error)
            told = "failed: %s" % error
        after = machine.processor_times()
        spent = {name: after[name] - before[name] for name in after}
        line["load"] = load
        line["steal_percent"] = 100 * spent["steal"] / (sum(spent.values()) or 1)
        # What is only reckoned nobody disturbs.
        if line["steal_percent"] > STEAL_PERCENT_MAX and key[0] != "simulated":
            told += " [disturbed: the host stole %.1f %%]" % line["steal_percent"]
        self.results.add(line)
        print("  %-9s %5s → %-5s %-9s %-11s %d  %s" % (*key, told), flush=True)

    # The device itself.

    def check_device(self, name):
        """How long the stand-in really takes, beside its model."""
        stand_in = self.stand_ins[name]
        for depth in (1, stand_in.parallel, 4 * stand_in.parallel):
            self.cell(lambda d=depth: self._check(stand_in, d), "device", name, "", "randread",
                      "depth %d" % depth, 0)

    def _check(self, stand_in, depth):
        if not shutil.which("fio"):
            raise lab.Skipped("not installed: fio")
        size = 2 * models.GIB
        with lab.device(stand_in, size, self.directory) as device:
            _, out, _ = lab.run([
                "fio", "--name=check", "--filename=" + device.path, "--rw=randread", "--bs=4k",
                "--direct=1", "--ioengine=libaio", "--iodepth=%d" % depth, "--time_based",
                "--runtime=%d" % self.options.seconds, "--randrepeat=0", "--output-format=json"])
        read = json.loads(out)["jobs"][0]["read"]
        model = closed_loop(stand_in.model(size), size, depth)
        return {
            "requests": read["total_ios"], "duration_s": read["runtime"] / 1e3,
            "iops": read["iops"], "mean_us": read["lat_ns"]["mean"] / 1e3,
            "p99_us": read["clat_ns"]["percentile"]["99.000000"] / 1e3,
            "model_iops": model["iops"], "model_mean_us": model["mean_us"],
            "model_p99_us": model["p99_us"],
        }

    def overhead_ns(self, name):
        """By how much every request is longer than its model says, where nothing else waits."""
        self.check_device(name)
        found = self.results.find(part="device", slow=name, mode="depth 1")
        return max(0, int(1e3 * (found[0]["mean_us"] - found[0]["model_mean_us"]))) if found else 0

    # Applications.

    def amount(self, slow):
        """How much work: enough for some seconds on the faster device, not hours on the slower."""
        full = 1 if self.stand_ins[slow].kind == "arms" else 6
        return 1 if self.options.quick else full * self.options.scale

    def recording(self, slow, case):
        return os.path.join(self.recordings, "%s-%s.parquet" % (slow, case))

    def record(self, slow, case):
        """The slow recording."""
        self.cell(lambda: self._run(slow, case, self.amount(slow), self.recording(slow, case)),
                  "real", slow, "", case, "recorded", 0)
        return bool(self.results.find(part="real", slow=slow, case=case, mode="recorded"))

    def _run(self, name, case, amount, output):
        """Runs an application on a fresh device, recorded there; figures of the recording."""
        app = APPLICATIONS[case]
        with contextlib.ExitStack() as stack:
            device = stack.enter_context(
                lab.device(self.stand_ins[name], app.size_of(amount), self.directory))
            place = device.path
            if app.file_system:
                place = os.path.join(self.directory, "work")
                with device.at_once():
                    lab.run(["mkfs.ext4", "-q", "-F", "-E", "nodiscard", device.path])
                    with device.mounted(place):
                        app.prepare(place, amount)
                device.forget()
                stack.enter_context(device.mounted(place))
                stack.callback(app.after, place)
                app.before(place)
            parts = os.path.join(self.directory, "parts.parquet")
            lab.run([self.ioecho, "record", device.path, "-o", parts, "-q", "--force",
                     "--event", self.options.event, "--", sys.executable,
                     os.path.join(lab.HERE, "applications.py"), case, place, amount])
        self._rejoin(parts, output)
        return figures.describe(figures.rows(self.ioecho, output))

    def _rejoin(self, parts, output):
        """Puts together the requests that the kernel merged, so that each counts once."""
        lab.run([self.ioecho, "convert", parts, output, "--rejoin"])

    def pair(self, slow, fast, case):
        """Really run on the fast device, and replayed there in every mode, in turn."""
        if not self.record(slow, case):
            return
        for repeat in range(self.options.repeats):
            truth = os.path.join(self.directory, "truth.parquet")
            self.cell(lambda: self._run(fast, case, self.amount(slow), truth),
                      "real", slow, fast, case, "truth", repeat)
            for mode in self.modes.names:
                # A simulation says the same each time.
                if mode in self.options.modes and not (mode in modes.PREDICTED and repeat):
                    self.cell(lambda m=mode: self._replay(slow, fast, case, m),
                              "real", slow, fast, case, mode, repeat)
            for name, command in self.options.other:
                self.cell(lambda c=command: self._other(slow, fast, case, c),
                          "real", slow, fast, case, name, repeat)

    def _other(self, slow, fast, case, command):
        """Replayed on the fast device by another program, which is recorded as the truth is."""
        trace = os.path.join(self.directory, "other.hfplayer.csv")
        lab.run([self.ioecho, "convert", self.recording(slow, case), trace])
        parts, seen = (os.path.join(self.directory, name + ".parquet") for name in ("parts", "seen"))
        size = APPLICATIONS[case].size_of(self.amount(slow))
        with lab.device(self.stand_ins[fast], size, self.directory) as device:
            lab.run([self.ioecho, "record", device.path, "-o", parts, "-q", "--force",
                     "--event", self.options.event, "--", "sh", "-c", command, "sh", trace,
                     device.path])
        self._rejoin(parts, seen)
        return figures.describe(figures.rows(self.ioecho, seen))

    def unscaled(self, name, case):
        """Replayed by dependencies on the device on which it was recorded."""
        if "dependency" in self.modes.names and self.record(name, case):
            for repeat in range(self.options.repeats):
                self.cell(lambda: self._replay(name, name, case, "dependency"),
                          "unscaled", name, name, case, "dependency", repeat)

    def _replay(self, slow, fast, case, mode):
        size = APPLICATIONS[case].size_of(self.amount(slow))
        trace = self.recording(slow, case)
        if mode in modes.RELINKED:
            rows = figures.rows(self.ioecho, trace)
            trace = modes.relinked(mode, rows, self.directory)
        if mode in modes.PREDICTED:
            return self._predict(trace, fast, size, mode)
        with lab.device(self.stand_ins[fast], size, self.directory) as device:
            more = ["--destroy", device.path, "--witness", *modes.options(mode)]
            return self._ioecho("replay", trace, "-t", device.path, *more)

    def _predict(self, trace, fast, size, mode):
        if mode == "learnt":
            # As large as the recorded device, or places would be wrapped around.
            device = "sim:learnt=%s,size=%d" % (self._learnt(fast), size)
        else:
            device = self.stand_ins[fast].simulated(size, self.overhead_ns(fast))
        if not device:
            raise lab.Skipped("no simulated device is like " + fast)
        return self._ioecho("predict", trace, "--device", device)

    def _learnt(self, name):
        """A run on a device from which it is learnt: from hardly any load to more than it takes."""
        run = os.path.join(self.options.out, "learnt-" + name)
        if not os.path.exists(os.path.join(run, "summary.json")):
            stand_in, size = self.stand_ins[name], 2 * models.GIB
            most = closed_loop(stand_in.model(size), size, 4 * stand_in.parallel)["iops"]
            load = LEARNT % (most / 20, 1.2 * most, self.options.seconds)
            with lab.device(stand_in, size, self.directory) as device:
                self._ioecho("replay", load, "-t", device.path, "--destroy", device.path)
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(self.run, run)
        return run

    def _ioecho(self, verb, *words):
        """The figures of a replay or a prediction, as the device saw it if it has a witness."""
        shutil.rmtree(self.run, ignore_errors=True)
        more = ["-q"] if verb == "replay" else []
        code, _, _ = lab.run([self.ioecho, verb, *words, "-o", self.run, *more], REPLAYED)
        with open(os.path.join(self.run, "summary.json")) as file:
            verdict = json.load(file)["verdict"]
        witness, seen = os.path.join(self.run, "witness.parquet"), self.run
        if os.path.exists(witness):
            seen = os.path.join(self.directory, "seen.parquet")
            self._rejoin(witness, seen)
        found = figures.describe(figures.rows(self.ioecho, seen))
        return {**found, "exit_code": code, "finding": verdict["finding"],
                "validity": verdict["validity"]}

    # Known graphs.

    def graph(self, slow, fast, case):
        """A graph on the slow model, inferred, and replayed on the simulated fast device."""
        requests = simulated.GRAPHS[case](self.amount(slow))
        rows, parents = simulated.perform(requests, self.stand_ins[slow].model(simulated.SIZE))
        truth, _ = simulated.perform(requests, self.stand_ins[fast].model(simulated.SIZE))
        self.cell(lambda: figures.describe(rows), "simulated", slow, "", case, "recorded", 0)
        self.cell(lambda: figures.describe(truth), "simulated", slow, fast, case, "truth", 0)
        for mode, links in simulated.RECKONED.items():
            self.cell(lambda x=links: self._reckon(rows, fast, x),
                      "simulated", slow, fast, case, mode, 0)
        target = self.stand_ins[fast].simulated(simulated.SIZE)
        for mode in self.modes.names:
            if mode in simulated.MODES and mode in self.options.modes:
                self.cell(lambda m=mode: self._simulate(rows, parents, target, m),
                          "simulated", slow, fast, case, mode, 0)
        if "dependency" in self.modes.names:
            self.cell(lambda: self._simulate(rows, parents, target, "known"),
                      "simulated", slow, fast, case, "known", 0)

    def _reckon(self, rows, fast, links):
        parents = simulated.inferred(self.ioecho, links, rows, self.directory)
        model = self.stand_ins[fast].model(simulated.SIZE)
        return figures.describe(simulated.perform_again(rows, parents, model))

    def _simulate(self, rows, parents, target, mode):
        trace = simulated.trace_for(self.ioecho, mode, rows, parents, self.directory)
        return self._ioecho("replay", trace, "-t", target, *modes.options(mode))


def closed_loop(model, size, depth, requests=5000):
    """Figures of a model with so many random reads in flight all the time."""
    dice = random.Random(1)
    coming, rows = [0] * depth, []
    for _ in range(requests):
        now = min(coming)
        offset = dice.randrange(size // 4096) * 4096
        done = model.completion(now, offset, 4096, False)
        coming[coming.index(now)] = done
        rows.append((now, "read", offset, 4096, done - now, ""))
    return figures.describe(rows)
