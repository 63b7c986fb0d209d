#!/usr/bin/env python3
"""Takes the paths of this machine out of the software bill of materials in a wheel.

    packaging/bom.py WHEEL DIRECTORY OUT

The bill names each crate of the workspace by where its sources lay. The same commit, built
elsewhere, would give another wheel. DIRECTORY becomes /ioecho in the bill, as it does in the
binary; the wheel's list of hashes (RECORD) follows, and the bill is written to OUT, too.
"""

import base64
import hashlib
import sys
import zipfile
from pathlib import Path


def record(text: str, name: str, contents: bytes) -> str:
    """The list of hashes with that of a file which has other contents now."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=").decode()
    line = f"{name},sha256={digest},{len(contents)}"
    return "".join(
        f"{line}\n" if old.startswith(f"{name},") else f"{old}\n" for old in text.splitlines()
    )


def main() -> None:
    wheel, directory, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    with zipfile.ZipFile(wheel) as old:
        files = [(entry, old.read(entry)) for entry in old.infolist()]
    bills = [entry.filename for entry, _ in files if entry.filename.endswith(".cyclonedx.json")]
    assert len(bills) == 1, bills
    contents = dict((entry.filename, text) for entry, text in files)
    bill = contents[bills[0]].replace(f"file://{directory}/".encode(), b"file:///ioecho/")
    assert directory.encode() not in bill, f"{directory} stands in {bills[0]}"
    (records,) = (name for name in contents if name.endswith(".dist-info/RECORD"))
    contents[bills[0]] = bill
    contents[records] = record(contents[records].decode(), bills[0], bill).encode()
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as new:
        for entry, _ in files:
            new.writestr(entry, contents[entry.filename])
    out.write_bytes(bill)


if __name__ == "__main__":
    main()
