"""Applications whose dependencies are known, on simulated devices.

No recording of a real application says which request truly waited for which, so an error there may
be the inference's, the replay's or the machine's. Here an application is a graph: each request has
parents, a think time after the last of them, or an instant at which it comes whatever happens. A
few lines of arithmetic run the graph on the models of the stand-ins: on the slow one that gives the
recording, in which the parents are not told, on the fast one the truth. ioecho replays the
recording on `sim:` with the same formula. The arithmetic shares no code with ioecho; that both
agree where the graph is told (mode `known`) is part of the result. Where the graph that
`ioecho depend` infers is performed by this arithmetic (mode `inferred`), no replay has a part.
"""

import csv
import dataclasses
import heapq
import os
import random

import lab
import modes

SIZE = 1 << 30
BLOCK = 4096
US = 1_000


@dataclasses.dataclass
class Request:
    """A request of a graph; `arrival` counts where it has no parents. Nanoseconds and bytes."""

    pid: int
    op: str
    offset: int
    length: int
    parents: list
    think: int
    arrival: int = 0


class Graph:
    """A graph that grows: parents first."""

    def __init__(self, seed):
        self.requests, self.dice = [], random.Random(seed)
        # Every place once, so that no two requests conflict.
        self.places = iter(self.dice.sample(range(SIZE // 65536), SIZE // 65536))

    def add(self, pid, op, parents, think_us=0, arrival=0, length=BLOCK):
        """Adds a request; its number. A think time is drawn, exponentially, about its mean."""
        think = int(self.dice.expovariate(1) * think_us * US) if think_us else 0
        offset = next(self.places) * 65536
        self.requests.append(Request(pid, op, offset, length, parents, think, arrival))
        return len(self.requests) - 1


def loops(amount):
    """4 processes, each with one request at a time, and think times."""
    graph = Graph(1)
    for pid in range(4):
        last = []
        for _ in range(250 * amount):
            op = "read" if graph.dice.random() < 0.7 else "write"
            last = [graph.add(pid, op, last, 1000, pid * 100_000)]
    return graph.requests


def single(amount):
    """1 process with one write at a time and hardly a thought, as mkfs."""
    graph, last = Graph(2), []
    for _ in range(1000 * amount):
        last = [graph.add(0, "write", last, 60, length=65536)]
    return graph.requests


def batches(amount):
    """1 process that issues 16 writes together and waits for all of them."""
    graph, last = Graph(3), []
    for _ in range(60 * amount):
        first = graph.add(0, "write", last, 2000)
        think = graph.requests[first].think
        rest = [graph.add(0, "write", last) for _ in range(15)]
        for step, number in enumerate(rest, 1):
            # One behind the other, as fast as a system call.
            graph.requests[number].think = think + step * 5 * US
        last = [first, *rest]
    return graph.requests


def copying(amount):
    """16 processes: a read, the write of what was read, the next file."""
    graph = Graph(4)
    for pid in range(16):
        last = []
        for _ in range(30 * amount):
            read = graph.add(pid, "read", last, 100, pid * 20_000, length=65536)
            last = [graph.add(pid, "write", [read], 100, length=65536)]
    return graph.requests


def database(amount):
    """8 processes that read and compute, and a writer of the log for which each commit waits."""
    graph = Graph(5)
    last, log = [[] for _ in range(8)], []
    for _ in range(40 * amount):
        commits = []
        for pid in graph.dice.sample(range(8), 4):
            for _ in range(3):
                last[pid] = [graph.add(pid, "read", last[pid], 300, pid * 50_000)]
            commits.append(pid)
        # A group commit: the writer waits for all who want to commit, and for its own last write.
        log = [graph.add(99, "write", sorted({*log, *(last[pid][0] for pid in commits)}), 30)]
        for pid in commits:
            last[pid] = [log[0]]
    return graph.requests


def mixed(amount):
    """The 4 processes, and arrivals from elsewhere that wait for nobody."""
    graph = Graph(6)
    for pid in range(4):
        last = []
        for _ in range(200 * amount):
            last = [graph.add(pid, "read", last, 1000, pid * 100_000)]
    at = 0
    for _ in range(200 * amount):
        at += int(graph.dice.expovariate(1) * 20_000 * US)
        graph.add(50, "write", [], arrival=at)
    return graph.requests


GRAPHS = {"loops": loops, "single": single, "batches": batches, "copying": copying,
          "database": database, "mixed": mixed}


def perform(requests, model):
    """The graph on a device: (rows as of a recording, the parents of each row)."""
    children = [[] for _ in requests]
    waits = [len(request.parents) for request in requests]
    ready = [0] * len(requests)
    coming = []
    for number, request in enumerate(requests):
        for parent in request.parents:
            children[parent].append(number)
        if not request.parents:
            heapq.heappush(coming, (request.arrival, number))
    rows, numbers = [], []
    while coming:
        now, number = heapq.heappop(coming)
        request = requests[number]
        done = model.completion(now, request.offset, request.length, request.op == "write")
        rows.append((now, request.op, request.offset, request.length, done - now, str(request.pid)))
        numbers.append(number)
        for child in children[number]:
            ready[child] = max(ready[child], done)
            waits[child] -= 1
            if not waits[child]:
                heapq.heappush(coming, (ready[child] + requests[child].think, child))
    row_of = {number: row for row, number in enumerate(numbers)}
    return rows, [[row_of[parent] for parent in requests[number].parents] for number in numbers]


def perform_again(rows, parents, model):
    """The graph that a recording and links make, on another device; rows as of a recording."""
    requests = []
    for (issue, op, offset, length, _, pid), links in zip(rows, parents):
        done = max((rows[parent][0] + rows[parent][4] for parent in links), default=issue)
        requests.append(
            Request(int(pid), op, offset, length, links, max(0, issue - done), issue))
    return perform(requests, model)[0]


def links_of(path):
    """The parents of each row in hfplayer's annotated CSV, by their row."""
    with open(path, newline="") as file:
        lines = list(csv.DictReader(file))
    row_of = {line["#DUMP_OFFSET.I"]: row for row, line in enumerate(lines)}
    named = (line["DEP_PARENT_LIST.S"] for line in lines)
    return [[] if text == "NA" else [row_of[name] for name in text.split("-")] for text in named]


def trace_for(ioecho, mode, rows, parents, directory):
    """Writes the trace that a mode replays; its path."""
    if mode in modes.RELINKED:
        return modes.relinked(mode, rows, directory)
    if mode == "known":
        path, text = "known.hfplayer.csv", modes.annotated(rows, parents)
    else:
        path, text = "recorded.csv", modes.as_csv(rows)
    path = os.path.join(directory, path)
    modes.write(path, text)
    return path


def inferred(ioecho, mode, rows, directory):
    """The parents that `ioecho depend` infers, by its own rules or by hfplayer's."""
    if mode in modes.RELINKED:
        return links_of(modes.relinked(mode, rows, directory))
    linked = os.path.join(directory, "linked.hfplayer.csv")
    trace = trace_for(ioecho, mode, rows, None, directory)
    lab.run([ioecho, "depend", trace, "-o", linked])
    return links_of(linked)


# Modes without a replay, and the links that the arithmetic here performs in them.
RECKONED = {"inferred": "dependency", "inferred-hfplayer": "hfplayer"}
# Modes with one: those of real devices, and with the true graph told.
MODES = [name for name in modes.MODES if name not in modes.PREDICTED]
