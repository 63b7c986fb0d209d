"""Traces and runs as tables.

The native file is Parquet with names for codes and signed numbers, so pyarrow reads it as it is.
Every other format is first converted into it by the program, into a temporary file.
"""

from __future__ import annotations

import enum
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from ._program import Error, PathLike, call

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

#: The version of the native format that is read as it is; others are converted first.
VERSION = b"2"

#: Columns of names: few values, so a dictionary and a small number for each row.
NAMES = ["op", "outcome", "late_cause", "integrity"]


class Flag(enum.IntFlag):
    """The bits of the column `flags`.

    >>> Flag(17)
    <Flag.SYNC|READ_AHEAD: 17>
    """

    SYNC = 1
    FUA = 2
    PREFLUSH = 4
    META = 8
    READ_AHEAD = 16


def _footer(file: Path) -> dict[bytes, bytes]:
    """The keys of the footer of a Parquet file; empty if the file is none."""
    import pyarrow
    import pyarrow.parquet as parquet

    with file.open("rb") as opened:
        if opened.read(4) != b"PAR1":
            return {}
    try:
        return dict(parquet.read_metadata(file).metadata or {})
    except (pyarrow.ArrowException, OSError):
        # The program says better what is wrong with it.
        return {}


@contextmanager
def _native(path: PathLike, options: dict[str, Any]) -> Iterator[Path]:
    """A native file with the requests of a trace or run."""
    file = Path(os.fspath(path))
    if (file / "run.toml").is_file() and (file / "requests.parquet").is_file():
        file = file / "requests.parquet"
    if not options and file.is_file() and _footer(file).get(b"ioecho.version") == VERSION:
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="ioecho-") as scratch:
        made = Path(scratch, "trace.parquet")
        call("convert", path, made, **options)
        yield made


def _durations(table: pyarrow.Table) -> pyarrow.Table:
    """Columns of nanoseconds as spans of time; their bytes are the same."""
    import pyarrow

    fields = [
        field.with_type(pyarrow.duration("ns")) if field.name.endswith("_ns") else field
        for field in table.schema
    ]
    return table.cast(pyarrow.schema(fields, table.schema.metadata))


@overload
def read(
    path: PathLike,
    columns: Sequence[str] | None = ...,
    *,
    as_: Literal["arrow"] = ...,
    durations: bool = ...,
    **options: Any,
) -> pyarrow.Table: ...
@overload
def read(
    path: PathLike,
    columns: Sequence[str] | None = ...,
    *,
    as_: Literal["polars"],
    durations: bool = ...,
    **options: Any,
) -> polars.DataFrame: ...
@overload
def read(
    path: PathLike,
    columns: Sequence[str] | None = ...,
    *,
    as_: Literal["pandas"],
    durations: bool = ...,
    **options: Any,
) -> pandas.DataFrame: ...
def read(
    path: PathLike,
    columns: Sequence[str] | None = None,
    *,
    as_: Literal["arrow", "polars", "pandas"] = "arrow",
    durations: bool = False,
    **options: Any,
) -> Any:
    """The requests of a trace in any format, a generated load, or a run.

    A row is a request; docs/formats.md has the columns. `columns` are those to read, `as_` says
    which kind of table to make. Instants and spans are nanoseconds (`issue_ns`), or with
    `durations` the library's own type of spans. Further keywords are options of `ioecho convert`,
    such as `start="90s"`, `busiest="5m"`, `filter="op = read"`.

    A native file (version 2) is read as it is, without a look at its check sums: `info` checks
    them. Any other is converted first; one that is cut off gives the warning `Damaged`.

    >>> table = read("examples/git.parquet", ["op", "length_bytes"])
    >>> table.num_rows, table.column_names
    (5640, ['op', 'length_bytes'])
    """
    import pyarrow.parquet as parquet

    if as_ not in ("arrow", "polars", "pandas"):
        raise ValueError(f"as_={as_!r}: there are arrow, polars and pandas")
    with _native(path, options) as file:
        wanted = None if columns is None else list(columns)
        # Memory maps save nothing here: the pages are packed.
        table = parquet.read_table(file, columns=wanted, read_dictionary=NAMES)
    if durations:
        table = _durations(table)
    if as_ == "polars":
        import polars

        return polars.from_arrow(table)
    if as_ == "pandas":
        import pandas
        import pyarrow

        def kept(kind: pyarrow.DataType) -> Any:
            # pandas has categories and spans of its own; numbers that may be missing stay whole.
            own = pyarrow.types.is_dictionary(kind) or pyarrow.types.is_duration(kind)
            return None if own else pandas.ArrowDtype(kind)

        return table.to_pandas(types_mapper=kept)
    return table


def scan(
    path: PathLike,
    columns: Sequence[str] | None = None,
    *,
    rows: int = 262_144,
    **options: Any,
) -> Iterator[pyarrow.RecordBatch]:
    """The same as `read` in batches of so many rows, for what does not fit into memory.

    >>> sum(batch.num_rows for batch in scan("examples/git.parquet", ["op"], rows=4096))
    5640
    """
    import pyarrow.parquet as parquet

    with _native(path, options) as file:
        wanted = None if columns is None else list(columns)
        names = [name for name in NAMES if name in parquet.read_schema(file).names]
        with parquet.ParquetFile(file, read_dictionary=names) as opened:
            yield from opened.iter_batches(rows, columns=wanted)


def _key(path: PathLike, key: str) -> dict[str, Any]:
    with _native(path, {}) as file:
        value = _footer(file).get(key.encode())
    if value is None:
        raise Error(3, f"{os.fspath(path)}: there is no {key} in its footer")
    found: dict[str, Any] = json.loads(value)
    return found


def header(path: PathLike) -> dict[str, Any]:
    """Where a trace comes from: source, losses, guesses, transforms, names of processes.

    docs/formats.md has the members.

    >>> header("examples/git.parquet")["volumes"][0]["size"]
    1073741824
    """
    return _key(path, "ioecho.header")


def codes(path: PathLike) -> dict[str, Any]:
    """The names that may stand in each column of names, and the bits of `flags`.

    >>> codes("examples/git.parquet")["op"][:7]
    ['read', 'write', 'flush', 'discard', 'write-zeroes', 'zone', 'mkdir']
    """
    return _key(path, "ioecho.codes")
