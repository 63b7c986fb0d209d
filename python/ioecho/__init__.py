"""Block I/O traces and runs in Python: the program `ioecho`, and its Parquet as data frames.

An analyst wants a trace as a table and a verdict as a value, and the figures must be those that
everybody else sees. So nothing is computed here: every figure is the program's, every table is its
native file. The package needs nothing but Python; `read` and `scan` need pyarrow.

>>> import ioecho
>>> load = "gen:zipf?theta=0.9&read=70&rate=5000&count=10000&seed=1"
>>> ioecho.info(load)["requests"]
10000
>>> run = ioecho.replay(load, "sim:size=64G,units=8,service=80us", here / "run1")
>>> run
<Run run1: faithful, valid>
>>> run.verdict["lateness"].grade
'pass'
>>> slower = ioecho.replay(load, "sim:size=64G,units=8,service=90us", here / "run2")
>>> ioecho.compare(run, slower)["pairs"][0]["word"]
'slower'

Options of a command are keywords, in the order in which they are given: `busiest="5m", spread=2`
is `--busiest=5m --spread=2`; `True` gives a flag without a value, a list repeats it.
"""

from ._frames import Flag, codes, header, read, scan
from ._program import EXIT_CODES, Damaged, Error, binary, call
from ._results import (
    Check,
    Figure,
    Run,
    Verdict,
    analyze,
    check,
    compare,
    convert,
    figures,
    info,
    merge,
    partial,
    replay,
)

__all__ = [
    "EXIT_CODES",
    "Check",
    "Damaged",
    "Error",
    "Figure",
    "Flag",
    "Run",
    "Verdict",
    "analyze",
    "binary",
    "call",
    "check",
    "codes",
    "compare",
    "convert",
    "figures",
    "header",
    "info",
    "merge",
    "partial",
    "read",
    "replay",
    "scan",
]
