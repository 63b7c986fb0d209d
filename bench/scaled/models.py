"""How long a stand-in for a disk takes for each request.

The experiment needs slow and fast storage, and a machine for development has neither. So a request
is answered at an instant that a model computes when the request comes. A model knows nothing but
the requests before: it sleeps nowhere, draws nothing at random, and is told the time.

Every instant and span is in nanoseconds, every size in bytes.
"""

import dataclasses
import math

SECOND = 1_000_000_000
TIME_UNITS = {"us": 1_000, "ms": 1_000_000, "s": SECOND}
GIB = 1 << 30
SIZE_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": GIB}


class Units:
    """Flash: units in parallel behind one queue, each on one request at a time, all equally fast.

    The same formula as `sim:model=const`: a service time, and a transfer at so many bytes a second.
    """

    def __init__(self, _size, units, service, bandwidth):
        self.free = [0] * units
        self.service, self.bandwidth = service, bandwidth

    def completion(self, now, _offset, length, _is_write):
        """When a request that comes now is done."""
        unit = min(range(len(self.free)), key=self.free.__getitem__)
        done = max(now, self.free[unit]) + self.service + length * SECOND // self.bandwidth
        self.free[unit] = done
        return done


class Arms:
    """Disks, each with one arm over rotating platters, and the data striped over them.

    The formulas of `sim:model=disk`: a request waits for the arm, seeks in `seek_min` +
    (`seek_max` - `seek_min`) * sqrt(distance / size), waits until its first byte comes round, and
    transfers; the platters are one spiral. A read that goes on where the disk's last request ended
    needs neither a seek nor a turn if it comes within a turn of it, because a drive reads ahead.
    Such a write needs neither if it comes before the last request is done: no drive here has a
    write cache, and none changes the order of its requests.
    """

    def __init__(self, size, arms, rpm, seek_min, seek_max, stripe, bandwidth):
        self.size = size // arms
        self.stripe, self.bandwidth = stripe, bandwidth
        self.seek_min, self.seek_max = seek_min, seek_max
        self.turn = 60 * SECOND // rpm
        self.free = [0] * arms
        self.at = [0] * arms

    def completion(self, now, offset, length, is_write):
        """When the last disk is done with its part of a request that comes now."""
        ahead = 0 if is_write else self.turn
        return max(self._serve(arm, now, place, part, ahead)
                   for arm, place, part in self.parts(offset, length))

    def parts(self, offset, length):
        """(disk, place on it, length) of what lies on each disk, pieces in a row as one."""
        found = {}
        end = offset + length
        while offset < end:
            stripe, within = divmod(offset, self.stripe)
            part = min(self.stripe - within, end - offset)
            row, arm = divmod(stripe, len(self.free))
            place, before = found.get(arm, (row * self.stripe + within, 0))
            found[arm] = (place, before + part)
            offset += part
        return [(arm, place, part) for arm, (place, part) in found.items()]

    def _serve(self, arm, now, place, length, ahead):
        start = max(now, self.free[arm])
        transfer = length * SECOND // self.bandwidth
        distance = abs(place - self.at[arm])
        if distance or now > self.free[arm] + ahead:
            if distance:
                share = math.sqrt(distance / self.size)
                start += self.seek_min + int((self.seek_max - self.seek_min) * share)
            # The spiral passes under the head at the rate of a transfer.
            angle = place * SECOND // self.bandwidth % self.turn
            start += (angle - start) % self.turn
        self.at[arm] = place + length
        self.free[arm] = start + transfer
        return self.free[arm]


KINDS = {"units": Units, "arms": Arms}


@dataclasses.dataclass(frozen=True)
class StandIn:
    """A device that is stood in for: what it is, the line of its model, and the keys in it."""

    what: str
    line: str
    kind: str
    keys: dict

    def model(self, size):
        return KINDS[self.kind](size, **self.keys)

    @property
    def parallel(self):
        """How many requests it works on at a time."""
        return self.keys[self.kind]

    def simulated(self, size, overhead=0):
        """The target `sim:` like it, every request longer by an overhead; None if none is."""
        if self.kind != "units":
            return None
        # A flush takes the way there and back alone, for nothing is cached.
        return "sim:model=const,size=%d,units=%d,service=%dns,bandwidth=%d,flush-service=%dns" % (
            size, self.keys["units"], self.keys["service"] + overhead, self.keys["bandwidth"],
            overhead)


def stand_in(what, line):
    """From `units=4,service=2ms,bandwidth=400M`: all keys of the model, and no other."""
    pairs = dict(pair.split("=", 1) for pair in line.split(","))
    for kind, wanted in WANTED.items():
        if set(pairs) == set(wanted):
            keys = {key: wanted[key](text) for key, text in pairs.items()}
            return StandIn(what, line, kind, keys)
    known = " or ".join(",".join(wanted) for wanted in WANTED.values())
    raise ValueError("%s does not have the keys of a model: %s" % (line, known))


def _span(text):
    for unit, factor in TIME_UNITS.items():
        if text.endswith(unit):
            return int(float(text.removesuffix(unit)) * factor)
    raise ValueError("%s is no span like 80us, 2ms or 1s" % text)


def _size(text):
    if text[-1:] in SIZE_UNITS:
        return int(text[:-1]) * SIZE_UNITS[text[-1]]
    return int(text)


KINDS = {"units": Units, "arms": Arms}
WANTED = {
    "units": {"units": int, "service": _span, "bandwidth": _size},
    "arms": {"arms": int, "rpm": int, "seek_min": _span, "seek_max": _span, "stripe": _size,
             "bandwidth": _size},
}
STAND_INS = {
    "hdd2": ("2 disks, striped",
             "arms=2,rpm=7200,seek_min=1ms,seek_max=16ms,stripe=64K,bandwidth=150M"),
    "ssd4": ("4 SSDs", "units=4,service=2ms,bandwidth=400M"),
    "ssd9": ("9 SSDs", "units=9,service=1500us,bandwidth=400M"),
}
