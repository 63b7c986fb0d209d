#!/usr/bin/env python3
"""The experiences of blkreplay's manual, chapter 5, repeated on simulated devices.

Prints the tables of docs/experiences.md and, with --pictures DIR, draws the pictures beside them.
Everything is simulated, so the same command prints the same figures everywhere.

    bench/experiences.py [--ioecho PROGRAM] [--load linux-webserver-1.load.gz] [--pictures DIR]

The natural load is linux-webserver-1 of Debian's package blkreplay-examples; without it only the
artificial part is run.
"""

import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

LOAD = pathlib.Path(
    "/usr/share/doc/blkreplay-examples/examples/example-load/natural/linux-webserver-1.load.gz"
)
BURSTS = "gen:bursts?area=60G&duration={}"
# A set of six spindles and one of twenty-four faster ones, each of which takes one request.
FEW = "sim:model=exp,units=6,service=10ms"
MANY = "sim:model=exp,units=24,service=6ms"
# A controller that is slower the more it is given.
COLLAPSE = "sim:model=collapse,size=1T,units=16,service=10ms,knee=64,worst=5"


class Bench:
    """Runs ioecho and remembers where."""

    def __init__(self, program, directory, pictures):
        self.program, self.directory, self.pictures = program, directory, pictures

    def run(self, *arguments):
        command = [str(self.program), *map(str, arguments)]
        done = subprocess.run(command, cwd=self.directory, capture_output=True, text=True)
        # 10: the device could not take the load, which is what most of these are about.
        if done.returncode not in (0, 10):
            sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def replay(self, name, load, target, *options):
        self.run("replay", load, "--target", target, "-o", name, *options)
        return json.loads((self.directory / name / "summary.json").read_text())

    def keep(self, name, *graphics):
        """Draws the named graphics of a run into the directory of pictures."""
        if not self.pictures:
            return
        drawn = self.directory / f"{name}.pictures"
        self.run("plot", name, "-o", drawn, "--only", ",".join(graphics))
        for graphic in graphics:
            for found in drawn.glob(f"*.{graphic}.png"):
                shutil.copy(found, self.pictures / f"{name}.{graphic}.png")


def span(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns} ns"


def row(name, summary):
    engine, took = summary["engine"], summary["achieved_duration_ns"] / 1e9
    demanded = engine["demanded_duration_ns"] / 1e9
    service, late = summary["service_time"]["all"], summary["lateness"]["all"]
    cells = [
        name,
        f"{took:.0f} s of {demanded:.0f} s",
        f"{engine['issued'] / took:.0f}",
        span(service["p50_ns"]),
        span(service["p99_ns"]),
        span(late["max_ns"]),
        engine["pushed_back"],
        engine["dropped"],
        engine["ordered"],
        engine["in_flight_peak"],
    ]
    print("| " + " | ".join(map(str, cells)) + " |")


def head(title):
    columns = (
        "run", "took", "requests/s", "service p50", "service p99", "latest",
        "pushed back", "dropped", "held up others", "most in flight",
    )
    print(f"\n### {title}\n\n| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))


def artificial(bench):
    head("Overload by artificial bursts")
    # The faster one is given twice as long, or it would not collapse, as in the manual.
    runs = (("few", FEW, "300s", "6 spindles"), ("many", MANY, "600s", "24 faster spindles"))
    for name, target, duration, words in runs:
        load = BURSTS.format(duration)
        row(words, bench.replay(name, load, target, "--in-flight-max", "128"))
        bench.keep(name, "g01.latency.realtime", "g04.delay.setpoint", "g000.overview.thrp")


def natural(bench, load):
    bench.run("convert", load, "derived.parquet", "--derive", "1")
    head("Overload and recovery with a derived natural load")
    for name, target, words in (("slow", FEW, "6 spindles"), ("fast", MANY, "24 faster spindles")):
        row(words, bench.replay(name, "derived.parquet", target, "--in-flight-max", "128"))
        bench.keep(name, "g000.overview.thrp", "g04.delay.setpoint")
    part = ("--duration", "300s")
    head("Four ways with conflicts, 128 in flight on a device that collapses")
    for mode in ("allow", "drop", "partial", "ordering"):
        options = (*part, "--conflicts", mode, "--in-flight-max", "128")
        row(f"`{mode}`", bench.replay(mode, "derived.parquet", COLLAPSE, *options))
        bench.keep(mode, "g08.latency.flying")
    head("From 8 to 512 in flight, conflicts allowed")
    for most in (8, 16, 32, 64, 128, 256, 512):
        options = (*part, "--conflicts", "allow", "--in-flight-max", str(most))
        row(str(most), bench.replay(f"most{most}", "derived.parquet", COLLAPSE, *options))
    head("Strong 0, 1 and 2, conflicts pushed back")
    for most in (128, 32):
        for strong in (0, 1, 2):
            name = f"strong{strong}of{most}"
            options = (*part, "--strong", str(strong), "--in-flight-max", str(most))
            words = f"strong {strong}, {most} in flight"
            row(words, bench.replay(name, "derived.parquet", COLLAPSE, *options))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ioecho", default="target/release/ioecho", type=pathlib.Path)
    parser.add_argument("--load", default=LOAD, type=pathlib.Path)
    parser.add_argument("--pictures", type=pathlib.Path)
    options = parser.parse_args()
    if not options.ioecho.exists():
        sys.exit(f"there is no {options.ioecho}: cargo build --release, or --ioecho PROGRAM")
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
        options.pictures = options.pictures.resolve()
    with tempfile.TemporaryDirectory() as directory:
        bench = Bench(options.ioecho.resolve(), pathlib.Path(directory), options.pictures)
        artificial(bench)
        if options.load.exists():
            natural(bench, options.load.resolve())
        else:
            print(f"\nskipped: {options.load} is not here (apt-get install blkreplay-examples)")


if __name__ == "__main__":
    main()
