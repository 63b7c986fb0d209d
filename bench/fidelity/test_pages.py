"""The decoder of ring buffer pages, on a page made by hand."""

import os
import shutil
import struct
import subprocess
import tempfile
import unittest

import recording
from recording import READ, WRITE

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = 512
QUEUE, COMPLETE = 11, 12
# Offsets as in the fake events below: device 8, sector 16, sectors 24, rwbs 28, error 40.
EVENTS = ["Q:%d:8:16:24:28:-1" % QUEUE, "C:%d:8:16:24:28:40" % COMPLETE]


def event(number, sector, sectors, rwbs, error=0):
    head = struct.pack("<HBBiI4xQI", number, 0, 0, 4711, 7 << 20, sector, sectors)
    return head + rwbs.ljust(12, b"\0") + struct.pack("<i", error)


def data(delta, payload):
    """An entry with its length in the type field: words of four bytes."""
    assert len(payload) % 4 == 0
    return struct.pack("<I", delta << 5 | len(payload) // 4) + payload


def long(delta, payload):
    """An entry with its length in the first word."""
    return struct.pack("<II", delta << 5, len(payload) + 4) + payload


def extend(delta):
    return struct.pack("<II", (delta & (1 << 27) - 1) << 5 | 30, delta >> 27)


def stamp(at):
    return struct.pack("<II", (at & (1 << 27) - 1) << 5 | 31, at >> 27)


def padding(delta, size):
    return struct.pack("<II", delta << 5 | 29, size) + bytes(size - 4)


def page(time, entries, missed=False):
    body = b"".join(entries)
    commit = len(body) | (1 << 31 if missed else 0)
    return (struct.pack("<QQ", time, commit) + body).ljust(PAGE, b"\xee")


@unittest.skipUnless(shutil.which("cc"), "no C compiler")
class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.binary = os.path.join(cls.directory, "pages")
        source = os.path.join(HERE, "pages.c")
        subprocess.run(["cc", "-std=gnu11", "-O1", "-o", cls.binary, source], check=True)

    def decode(self, *pages):
        raw, out = (os.path.join(self.directory, name) for name in ("raw", "x.blktrace.0"))
        with open(raw, "wb") as file:
            file.write(b"".join(pages))
        done = subprocess.run(
            [self.binary, raw, out, "3", str(PAGE)] + EVENTS, check=True, stdout=subprocess.PIPE
        )
        return recording.events(out), [int(word) for word in done.stdout.split()]

    def test_times_add_up_over_every_kind_of_entry(self):
        read = event(QUEUE, 8, 8, b"RS")
        rows, counts = self.decode(
            page(1000, [data(5, read), long(7, read), extend(1 << 30), data(1, read),
                        padding(2, 8), data(1, read), stamp(1 << 40), data(3, read)]),
            page(1 << 41, [data(0, read)]),
        )
        second = 1012 + (1 << 30)
        self.assertEqual(
            [row[2] for row in rows],
            [1005, 1012, second + 1, second + 4, (1 << 40) + 3, 1 << 41],
        )
        self.assertEqual(counts, [6, 0])

    def test_an_event_keeps_what_it_says(self):
        rows, _ = self.decode(page(1, [data(0, event(QUEUE, 80, 16, b"WS")),
                                       data(9, event(COMPLETE, 80, 16, b"WS", error=-5)),
                                       data(0, event(QUEUE, 160, 8, b"R"))]))
        found = recording.requests(rows)
        self.assertEqual(found.key, [(80, 8192, WRITE), (160, 4096, READ)])
        self.assertEqual((found.issue, found.done, found.failed), ([1, 10], [10, None], 1))
        # Sequence, process, device and processor.
        self.assertEqual([rows[0][i] for i in (1, 6, 7, 8)], [1, 4711, 7 << 20, 3])

    def test_other_events_are_left_out_and_lost_ones_told(self):
        rows, counts = self.decode(page(1, [data(0, event(99, 8, 8, b"R"))], missed=True))
        self.assertEqual((rows, counts), ([], [0, 1]))


if __name__ == "__main__":
    unittest.main()
