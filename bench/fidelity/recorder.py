"""Records the block tracepoints of one device in a tracing instance of its own.

Nothing reads the buffers while a tool runs: a reader would take processor time from the tool that
is judged. So they are large enough for the whole run and read afterwards. They never overwrite;
what found no room is counted, and a recording that lost an event is no recording.
"""

import os
import re
import subprocess

TRACING = "/sys/kernel/tracing"
PREFIX = "ioecho-fidelity-"
# Bytes in the ring buffer of the three events of a request, with room to spare (some 210 are used).
REQUEST_BYTES = 320
BUFFER_KIB_MIN = 4096
# What the kernel counts as not recorded, in per_cpu/cpuN/stats.
LOSSES = ("overrun", "commit overrun", "dropped events")


class Lost(Exception):
    """The recording is not whole."""


def mount():
    """Mounts tracefs where it is not."""
    if not os.path.isdir(TRACING + "/instances"):
        subprocess.run(["mount", "-t", "tracefs", "none", TRACING], check=True)


def _write(path, text):
    with open(path, "w") as file:
        file.write(text)


def _read(path):
    with open(path) as file:
        return file.read()


class Recorder:
    """One device, one instance, any number of recordings after each other.

    A device with request queues (`/sys/block/X/mq`) tells when its driver was given a request and
    when it completed it; one that takes them as they come (zram) tells of the bio alone.
    """

    def __init__(self, device, decoder, requests):
        self.device, self.decoder = device, decoder
        self.path = "%s/instances/%s%d" % (TRACING, PREFIX, os.getpid())
        queued = os.path.isdir("/sys/block/%s/mq" % device)
        self.events = [("Q", "block_bio_queue")]
        if queued:
            self.events += [("D", "block_rq_issue"), ("C", "block_rq_complete")]
        else:
            self.events += [("C", "block_bio_complete")]
        os.mkdir(self.path)
        try:
            self._set_up(requests)
        except BaseException:
            self.close()
            raise

    def _set_up(self, requests):
        major, minor = map(int, _read("/sys/block/%s/dev" % self.device).split(":"))
        self._set("tracing_on", "0")
        self._set("trace_clock", "mono")
        self._set("options/overwrite", "0")
        # All of a run may happen on one processor, so each has room for the whole of it.
        kib = max(BUFFER_KIB_MIN, requests * REQUEST_BYTES // 1024)
        self._set("buffer_size_kb", str(kib))
        for _, event in self.events:
            self._set("events/block/%s/filter" % event, "dev == %d" % (major << 20 | minor))
            self._set("events/block/%s/enable" % event, "1")

    def _set(self, name, text):
        _write(self.path + "/" + name, text)

    def start(self):
        self._set("trace", "")
        self._set("tracing_on", "1")

    def stop(self):
        self._set("tracing_on", "0")

    def save(self, prefix):
        """Writes PREFIX.blktrace.0, .1 …; says how many events. Raises Lost if any is missing."""
        size, form = self._page_bytes(), self._layout()
        events, lost = 0, 0
        for cpu in sorted(self._processors()):
            raw, per_cpu = "%s.raw" % prefix, "%s/per_cpu/cpu%d" % (self.path, cpu)
            pipe = os.open(per_cpu + "/trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
            try:
                with open(raw, "wb") as out:
                    while True:
                        try:
                            page = os.read(pipe, size)
                        except BlockingIOError:
                            break
                        if not page:
                            break
                        out.write(page)
            finally:
                os.close(pipe)
            counts = dict(re.findall(r"^([a-z ]+): (\d+)$", _read(per_cpu + "/stats"), re.M))
            lost += sum(int(counts.get(name, 0)) for name in LOSSES)
            command = [self.decoder, raw, "%s.blktrace.%d" % (prefix, cpu), str(cpu), str(size)]
            done = subprocess.run(command + form, check=True, stdout=subprocess.PIPE)
            written, lost_pages = map(int, done.stdout.split())
            events, lost = events + written, lost + lost_pages
            os.unlink(raw)
        if lost:
            raise Lost("%d events lost: the tracing buffers were too small" % lost)
        return events

    def _processors(self):
        names = os.listdir(self.path + "/per_cpu")
        return [int(name[3:]) for name in names if re.fullmatch(r"cpu\d+", name)]

    def _page_bytes(self):
        try:
            return 1024 * int(_read(self.path + "/buffer_subbuf_size_kb"))
        except OSError:
            return os.sysconf("SC_PAGE_SIZE")

    def _layout(self):
        """The events as `pages` wants to be told of them."""
        form = []
        for action, event in self.events:
            text = _read("%s/events/block/%s/format" % (self.path, event))
            number = re.search(r"^ID: (\d+)", text, re.M).group(1)
            places = []
            for field in ("dev", "sector", "nr_sector", "rwbs", "error"):
                found = re.search(r"\b%s(?:\[\d+\])?;\s*offset:(\d+)" % field, text)
                if not found and field != "error":
                    raise Lost("%s has no field %s on this kernel" % (event, field))
                places.append(found.group(1) if found else "-1")
            form.append(":".join([action, number] + places))
        return form

    def close(self):
        """Removes the instance; the kernel refuses while it records."""
        for name, text in (("tracing_on", "0"), ("set_event", "")):
            try:
                self._set(name, text)
            except OSError:
                pass
        os.rmdir(self.path)
