"""Reads the figures back that a picture shows, by its own axes and legend."""

import re

UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9, "k": 1e3, "M": 1e6, "": 1}


def number(label):
    """The number of an axis's label: `700`, `10 k`, `100 ns` (in nanoseconds)."""
    value, _, unit = label.partition(" ")
    return float(value) * UNITS[unit]


class Picture:
    """An SVG of `ioecho plot`."""

    def __init__(self, svg):
        line = r'<path d="M82\.0 ([\d.]+)H[\d.]+"[^>]*/><text [^>]*>([^<]+)</text>'
        self.heights = [(float(y), number(label)) for y, label in re.findall(line, svg)]
        line = r'<path d="M([\d.]+) 74V[\d.]+"[^>]*/><text [^>]*>([^<]+)</text>'
        self.places = [(float(x), number(label)) for x, label in re.findall(line, svg)]
        unit = re.search(r">time \[(\w+)\]<", svg)
        self.time_ns = UNITS[unit.group(1)] if unit else 1
        legend = r'<path d="M[\d.]+ \d+h18" stroke="(#\w+)"[^>]*/><text [^>]*>([^<]+)</text>'
        self.colours = {name: colour for colour, name in re.findall(legend, svg)}
        self.lines = re.findall(r'<path d="(M[^"]*L[^"]*)" fill="none" stroke="(#\w+)"', svg)
        self.marks = re.findall(r'<path d="(M[^"]*z)" fill="#\w+" fill-opacity', svg)

    def is_logarithmic(self):
        """Whether each label is ten times the one below."""
        (_, low), (_, high) = self.heights[:2]
        return low > 0 and abs(high / low - 10) < 1e-6

    def value(self, y):
        """The value at a height."""
        (at, low), (to, high) = self.heights[0], self.heights[-1]
        share = (y - at) / (to - at)
        if self.is_logarithmic():
            return low * (high / low) ** share
        return low + (high - low) * share

    def area(self, name):
        """What lies below the line of this name: its values, each for so many seconds."""
        (at, first), (to, last) = self.places[0], self.places[-1]
        seconds = (last - first) / (to - at) * self.time_ns / 1e9
        total = 0
        for path, colour in self.lines:
            if colour != self.colours[name]:
                continue
            for part in path.split("M")[1:]:
                points = [tuple(map(float, point.split())) for point in part.split("L")]
                for (x, y), (next_x, next_y) in zip(points, points[1:]):
                    mean = (self.value(y) + self.value(next_y)) / 2
                    total += mean * (next_x - x) * seconds
        return total

    def seconds(self):
        """How long the axis of time is between its outer labels."""
        return (self.places[-1][1] - self.places[0][1]) * self.time_ns / 1e9

    def blur(self):
        """What cannot be seen below a line: a tenth of a pixel, for as long as the axis is."""
        return abs(self.value(0.1) - self.value(0)) * self.seconds()

    def highest(self):
        """The values between which the highest mark lies.

        Classes share a cell of the picture, one above the other, so a mark is right to a cell.
        """
        tops = [
            (float(y), float(height))
            for marks in self.marks
            for y, height in re.findall(r"M[\d.]+ ([\d.]+)h[\d.]+v([\d.]+)", marks)
        ]
        if not tops or len(self.heights) < 2:
            return None
        cell = max(height for _, height in tops) + 1
        y, _ = min(tops)
        return self.value(y + cell), self.value(y - cell)
