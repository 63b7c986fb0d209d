"""The tools that are compared, and how each is called.

Every tool gets the same recording in the form that it reads, and the options that its own
documentation gives for a timed replay. Where there is a choice that decides (btreplay's bunches,
blkreplay's threads), both are run.
"""

import contextlib
import json
import os
import shutil
import subprocess

import recording

# Debian packages by the programs that they bring.
PACKAGES = {
    "fio": "fio", "btrecord": "blktrace", "btreplay": "blktrace", "blkreplay": "blkreplay",
}
# From so near on the bare pacer spins, in microseconds.
PACER_NEAR_US = 100


class Trace:
    """A recording on disk, in every form that a tool reads.

    directory: where they lie; device: path of the device that it was recorded from, and is for.
    """

    def __init__(self, directory, device):
        self.directory, self.device = directory, device
        self.name = os.path.basename(device)
        self.prefix = os.path.join(directory, self.name)
        self.merged = os.path.join(directory, "merged.bin")
        self.iolog = os.path.join(directory, "iolog")
        self.load = os.path.join(directory, "load")
        self.native = os.path.join(directory, "trace.parquet")
        self.requests = None

    def bunches(self, most):
        return os.path.join(self.directory, "bunches-of-%d" % most)

    def read(self):
        """Reads it back; again after a new recording."""
        self.requests = recording.load(self.prefix)

    def convert(self, ioecho, tools):
        """Writes every form that `tools` need."""
        recording.merge(self.prefix, self.merged)
        recording.export_iolog(self.requests, self.device, self.iolog)
        recording.export_load(self.requests, self.load)
        _quietly([ioecho, "convert", self.prefix + ".blktrace.0", self.native])
        for tool in tools:
            if isinstance(tool, Btreplay):
                tool.convert(self)


def _quietly(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise RuntimeError("%s failed:\n%s" % (command[0], done.stdout.decode(errors="replace")))


class Tool:
    """One way to replay. peer: of Debian, so one that promises are measured against."""

    programs, peer, stdin = (), False, None

    def __init__(self, name, what):
        self.name, self.what = name, what

    def command(self, trace, scratch):
        raise NotImplementedError

    def own_figures(self, scratch):
        """What the tool says of itself, for comparison; then what it left is removed."""
        return None


class Ioecho(Tool):
    def __init__(self, name, binary, options=()):
        super().__init__(name, "ioecho " + (" ".join(options) or "with its defaults"))
        self.binary, self.options = binary, list(options)

    def command(self, trace, scratch):
        target = ["--target", trace.device, "--destroy", trace.device]
        out = ["-o", os.path.join(scratch, "run"), "-q"]
        return [self.binary, "replay", trace.native] + target + out + self.options

    def own_figures(self, scratch):
        run = os.path.join(scratch, "run")
        with contextlib.suppress(OSError, ValueError, KeyError):
            with open(os.path.join(run, "summary.json")) as file:
                summary = json.load(file)
            found = {
                "finding": summary["verdict"]["finding"],
                "validity": summary["verdict"]["validity"],
                "lateness": summary["lateness"]["all"],
                "response_time": summary["response_time"]["all"],
                "late": summary["late"], "engine": summary["engine"],
            }
            shutil.rmtree(run)
            return found
        shutil.rmtree(run, ignore_errors=True)
        return None


class Pacer(Tool):
    def __init__(self, name, binary, near_us):
        how = "spinning" if near_us < 0 else "sleeping, then spinning for %d us" % near_us
        super().__init__(name, "bare pacer, " + how)
        self.binary, self.near_us = binary, near_us

    def command(self, trace, scratch):
        return [self.binary, trace.merged, trace.device, str(self.near_us)]


class Fio(Tool):
    programs, peer = ("fio",), True

    def __init__(self, name, form):
        super().__init__(name, "fio, read_iolog of " + form)
        self.form = form

    def command(self, trace, scratch):
        log = trace.merged if self.form == "blktrace" else trace.iolog
        # Without a depth fio guesses one from the log and waits for each request (psync).
        # Not io_uring: fio 3.42 never ends a timed replay with it.
        return [
            "fio", "--name=replay", "--read_iolog=" + log, "--replay_redirect=" + trace.device,
            "--ioengine=libaio", "--iodepth=1024", "--direct=1", "--thread",
        ]


class Btreplay(Tool):
    programs, peer = ("btrecord", "btreplay"), True

    def __init__(self, name, most):
        super().__init__(name, "btreplay, at most %d requests in a bunch" % most)
        self.most = most

    def convert(self, trace):
        out = trace.bunches(self.most)
        shutil.rmtree(out, ignore_errors=True)
        os.mkdir(out)
        # A bunch goes down at the time of its first request; a lone one within 1 ns is alone.
        bunch = ["-m", "1", "-M", "1"] if self.most == 1 else ["-M", str(self.most)]
        _quietly(["btrecord", "-d", trace.directory, "-D", out] + bunch + [trace.name])

    def command(self, trace, scratch):
        return ["btreplay", "-d", trace.bunches(self.most), "-W", trace.name]


class Blkreplay(Tool):
    programs, peer = ("blkreplay",), True

    def __init__(self, name, options):
        super().__init__(name, "blkreplay " + (" ".join(options) or "with its defaults"))
        self.options = options

    def command(self, trace, scratch):
        self.stdin = trace.load
        return ["blkreplay"] + self.options + [trace.device]


def all_tools(ioecho, pacer, variants):
    """Every tool by name. variants: [(name, options)], further ways to call ioecho."""
    tools = [
        Ioecho("ioecho", ioecho),
        Pacer("pacer", pacer, PACER_NEAR_US),
        Pacer("pacer-spin", pacer, -1),
        Fio("fio", "version 3"),
        Fio("fio-blktrace", "blktrace"),
        Btreplay("btreplay-1", 1),
        Btreplay("btreplay-8", 8),
        Blkreplay("blkreplay-32", ["--threads=32", "--with-conflicts", "--start-grace=3"]),
        Blkreplay("blkreplay", []),
    ]
    tools += [Ioecho("ioecho-" + name, ioecho, options) for name, options in variants]
    return {tool.name: tool for tool in tools}


def install(programs):
    """Installs what is missing, where this is Debian. Says what is still not there."""
    missing = [name for name in programs if not shutil.which(name)]
    if missing and shutil.which("apt-get"):
        packages = sorted({PACKAGES[name] for name in missing})
        print("installing", " ".join(packages))
        command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends"]
        environment = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
        subprocess.run(command + packages, stdout=subprocess.DEVNULL, env=environment, check=False)
    return {name for name in missing if not shutil.which(name)}


def versions(ioecho):
    """What each program says that it is."""
    found = {}
    for name, command in (
        ("ioecho", [ioecho, "--version"]), ("fio", ["fio", "--version"]),
        ("blktrace", ["dpkg-query", "-W", "-f", "${Version}", "blktrace"]),
        ("blkreplay", ["dpkg-query", "-W", "-f", "${Version}", "blkreplay"]),
    ):
        if shutil.which(command[0]):
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False
            )
            found[name] = done.stdout.decode().strip().replace(name, "").strip(" -")
    return found
