#!/usr/bin/env python3
"""Prints the licences of everything that the binary is linked from.

    packaging/licences.py TARGET

A binary carries the code of two hundred crates, most of whose licences ask that their text goes
with it. The crates are those that cargo links for the target (no tools of the build, none of the
tests); each text is printed once, below the names of its crates. A crate without a text fails the
packaging unless it says which licence it has: then that text is one of the others'.
"""

import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

NAMES = ("license", "licence", "copying", "notice", "copyright", "unlicense")

#: The C library is linked statically; its terms are met by the source of ioecho, from which anybody
#: can link it again with another one.
GLIBC = """GNU C Library (https://www.gnu.org/software/libc/), linked statically: LGPL-2.1-or-later.
ioecho's source, with packaging/dist.sh, is what section 6 of that licence asks for: with it the
binary can be linked again with another version of the library."""


def cargo(*args: str) -> str:
    return subprocess.run(["cargo", *args], check=True, capture_output=True, text=True).stdout


def linked(target: str) -> set[tuple[str, str]]:
    """Names and versions of the crates that are linked."""
    tree = cargo(
        *("tree", "--locked", "--package", "ioecho", "--edges", "normal", "--target", target),
        *("--prefix", "none", "--format", "{p}"),
    )
    return {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}


def texts(directory: Path) -> list[str]:
    files = [
        path
        for path in sorted(directory.iterdir())
        if path.is_file() and path.name.lower().startswith(NAMES) and path.suffix != ".html"
    ]
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in files]


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    wanted = linked(sys.argv[1])
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1"))
    by_text: dict[str, list[str]] = defaultdict(list)
    listed, faults = [], []
    for package in sorted(metadata["packages"], key=lambda one: (one["name"], one["version"])):
        is_ours = package["source"] is None
        if is_ours or (package["name"], "v" + package["version"]) not in wanted:
            continue
        name = f"{package['name']} {package['version']}"
        licence = package["license"] or package["license_file"]
        if not licence:
            faults.append(name)
        listed.append(f"{name}: {licence}")
        for text in texts(Path(package["manifest_path"]).parent):
            by_text[text].append(name)
    if faults or not listed:
        print("no licence: " + ", ".join(faults or ["no crates at all"]), file=sys.stderr)
        return 1
    print("ioecho is linked from the crates below and from the C library.\n")
    print(GLIBC, *listed, sep="\n")
    for text, names in sorted(by_text.items(), key=lambda entry: entry[1]):
        print("\n" + "=" * 80, ", ".join(names), "=" * 80, text, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
