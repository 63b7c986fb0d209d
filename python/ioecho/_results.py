"""What the commands give: figures as dictionaries, runs with their verdict, pictures."""

from __future__ import annotations

import html
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

from ._frames import read
from ._program import CUT_OFF, EXIT_CODES, Error, PathLike, call, run

if TYPE_CHECKING:
    import pyarrow

#: Exit codes of a replay that has results: a device that is too slow is a finding, no error.
FINDINGS = (0, 10, 11, 12, 13, 14, 15, 16)


@dataclass(frozen=True)
class Check:
    """One check of a verdict, in the program's words."""

    name: str
    #: `pass`, `limited`, `suspect`, `invalid` or `not-applicable`
    grade: str
    measured: str
    threshold: str
    advice: str
    #: the finding or the other check that explains why this one is broken, if one does
    explained_by: str | None = None

    def explain(self) -> str:
        """The page on this check: why it fools people, and what to do."""
        return call("explain", self.name)


@dataclass(frozen=True)
class Verdict:
    """Whether a run may be believed, and what it found."""

    #: `valid`, `suspect` or `invalid`: the worst of the checks decides
    validity: str
    #: `faithful`, `unscheduled`, `foreign-load`, `device-limited`, …
    finding: str
    summary: str
    checks: list[Check] = field(repr=False)

    def __getitem__(self, name: str) -> Check:
        """The check of this name."""
        for check in self.checks:
            if check.name == name:
                return check
        raise KeyError(name)

    @property
    def is_valid(self) -> bool:
        """Whether no check speaks against the run."""
        return self.validity == "valid"

    def __str__(self) -> str:
        return self.summary


class Run:
    """The directory of a run (docs/runs.md). Every function that takes a path takes a run."""

    def __init__(self, path: PathLike, exit_code: int | None = None):
        """Reads the summary of a finished run; a killed one must be recovered first."""
        self.path = Path(os.fspath(path))
        #: what the replay ended with; unknown of a run of former times
        self.exit_code = exit_code
        try:
            text = (self.path / "summary.json").read_text(encoding="utf-8")
        except OSError as error:
            if (self.path / "run.toml").is_file():
                hint = f"{self.path}: the run did not end: `ioecho report {self.path}` recovers it"
                raise Error(CUT_OFF, hint) from error
            raise Error(3, f"{self.path}: not the directory of a run") from error
        #: summary.json (docs/json.md)
        self.summary: dict[str, Any] = json.loads(text)
        verdict = self.summary["verdict"]
        self.verdict = Verdict(
            verdict["validity"],
            verdict["finding"],
            verdict["summary"],
            [Check(**check) for check in verdict["checks"]],
        )

    def __fspath__(self) -> str:
        return str(self.path)

    def __repr__(self) -> str:
        return f"<Run {self.path.name}: {self.verdict.finding}, {self.verdict.validity}>"

    def _repr_html_(self) -> str:
        """The run's page, in a frame of its own: its style and script stay inside."""
        page = html.escape((self.path / "report.html").read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" width="100%" height="900" style="border:0"></iframe>'

    @property
    def meaning(self) -> str | None:
        """The meaning of the exit code, in a few words."""
        return None if self.exit_code is None else EXIT_CODES.get(self.exit_code)

    def requests(self, columns: Sequence[str] | None = None, **more: Any) -> pyarrow.Table:
        """What was asked for and what was measured, request by request: see `read`."""
        return read(self.path, columns, **more)

    def figures(self, *names: str, **options: Any) -> dict[str, Figure]:
        """Pictures of the run: see `figures`."""
        return figures(self.path, *names, **options)


class Figure(str):
    """A picture as SVG, which a notebook draws."""

    def _repr_svg_(self) -> str:
        return str(self)


def _json(command: str, *paths: PathLike, **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(call(command, *paths, json=True, **options))
    return found


def info(path: PathLike, **options: Any) -> dict[str, Any]:
    """What a trace or a run holds: `ioecho info --json` (docs/json.md).

    >>> about = info("examples/pgbench.parquet", start="20s", duration="12s")
    >>> about["requests"], about["flushes"]
    (6652, 1201)
    """
    return _json("info", path, **options)


def analyze(path: PathLike, **options: Any) -> dict[str, Any]:
    """All figures of a load, a run or merged parts: `ioecho analyze --json` (docs/analysis.md)."""
    return _json("analyze", path, **options)


def convert(source: PathLike, target: PathLike, **options: Any) -> Path:
    """Writes a trace in the format that the name of `target` says, changed by transforms.

    >>> minute = convert("examples/pgbench.parquet", here / "peak.load.gz", busiest="10s")
    >>> info(minute)["requests"]
    4759
    """
    call("convert", source, target, **options)
    return Path(os.fspath(target))


def partial(
    path: PathLike, output: PathLike, holds: Literal["all", "rows"] = "all", **options: Any
) -> Path:
    """Counts a part of a trace into a table, which `merge` or a database puts together.

    With `holds="rows"` it has the rows for databases alone, which are small. All parts of one trace
    need the same name: `trace="web1"`, unless they are stretches of one file.

    >>> rows = partial("examples/git.parquet", here / "rows.parquet", "rows", trace="git")
    >>> rows.stat().st_size < 100_000
    True
    """
    call("analyze", path, partial=holds, output=output, **options)
    return Path(os.fspath(output))


def merge(parts: Sequence[PathLike], output: PathLike, **options: Any) -> Path:
    """Puts together parts of an analysis, or runs that went on at the same time.

    >>> a = partial("examples/git.parquet", here / "a.parquet", duration="5s")
    >>> b = partial("examples/git.parquet", here / "b.parquet", start="5s")
    >>> whole = analyze(merge([b, a], here / "whole.parquet"))
    >>> whole["requests"] == info("examples/git.parquet")["requests"]
    True
    """
    call("merge", *parts, output=output, **options)
    return Path(os.fspath(output))


def compare(*systems: PathLike | Sequence[PathLike], **options: Any) -> dict[str, Any]:
    """Compares runs of one load, the first being the baseline: docs/compare.md has the members.

    A list of runs is one system whose runs were repeated. That a criterion of `fail_if` is met is
    a result, which stands in `criteria`; runs that are not comparable raise `Error` (20).
    """
    joined = [
        system if isinstance(system, (str, os.PathLike)) else ",".join(os.fspath(run) for run in system)
        for system in systems
    ]
    return _json("compare", *joined, results=(0, 21), **options)


def check(run: PathLike, trace: PathLike | None = None, **options: Any) -> dict[str, Any]:
    """Whether a replay was faithful, by what the device saw: docs/check.md has the members."""
    traces = [run] if trace is None else [run, trace]
    return _json("check", *traces, results=(0, CUT_OFF, 22), **options)


def replay(
    trace: PathLike,
    target: Union[PathLike, Sequence[PathLike]],
    output: PathLike,
    **options: Any,
) -> Run:
    """Replays a trace on a device, a file or a simulation (`sim:…`), and gives the run.

    Findings are results: a device that is too slow is told by `verdict` and `exit_code`. What
    could not be replayed at all raises `Error`. Nothing that is in use or holds somebody's data
    is overwritten unless `destroy` names it.

    >>> slow = replay("gen:zipf?read=70&rate=5000&count=2000", "sim:units=1,service=1ms", here / "r")
    >>> slow.exit_code, slow.meaning, slow.verdict.finding
    (10, 'device-limited', 'device-limited')
    """
    targets = [target] if isinstance(target, (str, os.PathLike)) else list(target)
    code, _, messages = run("replay", trace, target=targets, output=output, **options)
    if code not in FINDINGS or not Path(os.fspath(output), "summary.json").is_file():
        raise Error(code, messages)
    return Run(output, code)


def figures(path: PathLike, *names: str, **options: Any) -> dict[str, Figure]:
    """Pictures of a run or a load as SVG, by name (docs/pictures.md); all, or those named.

    >>> list(figures("examples/git.parquet", "g40"))
    ['g40.rqsize.bins']
    """
    with tempfile.TemporaryDirectory(prefix="ioecho-") as scratch:
        only = ",".join(names) or None
        call("plot", path, output=scratch, to="svg", only=only, **options)
        found = sorted(Path(scratch).glob("*.svg"))
        return {
            _picture(Path(os.fspath(path)).name, file.stem): Figure(
                file.read_text(encoding="utf-8")
            )
            for file in found
        }


def _picture(trace: str, file: str) -> str:
    """The name of a picture, without that of the trace in front of it.

    >>> _picture("web.1.load.gz", "web.1.g01.latency.realtime")
    'g01.latency.realtime'
    """
    parts = trace.split(".")
    for count in range(len(parts), 0, -1):
        prefix = ".".join(parts[:count]) + "."
        if file.startswith(prefix):
            return file.removeprefix(prefix)
    return file
