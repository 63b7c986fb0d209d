"""What a worker does with a stretch of a trace, whichever engine hands it out (`ioecho.spark`)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NamedTuple


class Stretch(NamedTuple):
    """A part of a trace, cut by its own time."""

    trace: str
    number: int
    #: options of the program: whole nanoseconds, so that stretches touch and never overlap
    window: dict[str, str]


def stretches(trace: str, parts: int) -> list[Stretch]:
    """Cuts a trace into so many stretches of equal length.

    >>> stretches("examples/git.parquet", 2)[1].window
    {'start': '11560401010ns', 'duration': '11560401010ns'}
    """
    import ioecho

    if parts == 1:
        return [Stretch(trace, 0, {})]
    about = ioecho.info(trace)
    first = about["first_issue_ns"]
    step = max(1, -(-(about["duration_ns"] + 1) // parts))
    return [
        Stretch(trace, part, {"start": f"{first + part * step}ns", "duration": f"{step}ns"})
        for part in range(parts)
    ]


def analyze(part: Stretch, out: str, holds: Any = "all", share: float | None = None) -> str:
    """Writes the table of a stretch, or nothing at all."""
    import ioecho

    name = Path(part.trace).name
    file = Path(f"trace={name}", f"{part.number:05}.parquet")
    target, pages = Path(out, "parts", file), Path(out, "pages", file)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Spark passes over names that begin with a dot.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        drawn = Path(scratch, "pages")
        sample = {"page_sample": share, "page_sample_output": drawn} if share else {}
        options = {"trace": name, "threads": 1, **part.window, **sample}
        made = ioecho.partial(part.trace, Path(scratch, "part"), holds, **options)
        if share:
            pages.parent.mkdir(parents=True, exist_ok=True)
            drawn.replace(pages)
        made.replace(target)
    return str(target)


def merge(trace: str, out: str, holds: str = "all") -> str:
    """Merges the parts of a trace, and writes the analysis of the whole."""
    import ioecho

    name = Path(trace).name
    parts = sorted(Path(out, "parts", f"trace={name}").glob("[0-9]*.parquet"))
    whole = Path(out, "whole", f"{name}.parquet")
    whole.parent.mkdir(parents=True, exist_ok=True)
    ioecho.merge(parts, whole)
    if holds == "all":
        Path(f"{whole.with_suffix('')}.json").write_text(json.dumps(ioecho.analyze(whole)))
    return str(whole)
