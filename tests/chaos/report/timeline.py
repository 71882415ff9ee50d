"""The picture of a run as two SVG elements: the labels of the rows, and the rows themselves over one axis of time."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from html import escape

from chaos.history import Outcome
from chaos.journal import Fault
from chaos.report.figures import Band, Stretch, bands_of, between, buckets, stretches_of, writes_of
from chaos.report.run_facts import RunFacts

LABELS_WIDTH = 176
WIDTH_MIN, WIDTH_MAX = 960, 7200
PIXELS_PER_S = 4
BUCKET_PIXELS = 4
LANE, STRIP, CHART, GAP = 18, 22, 120, 34
LATENCIES_S = (0.001, 0.01, 0.1, 1.0, 10.0, 60.0)
TICKS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600)
TICK_PIXELS = 90
LABEL_PIXELS = 34


class Timeline:
    """Draws row after row, from the top to the bottom."""

    def __init__(self, facts: RunFacts) -> None:
        self.facts = facts
        self.span_s = facts.seconds(facts.ended_ns)
        self.width = round(min(max(self.span_s * PIXELS_PER_S, WIDTH_MIN), WIDTH_MAX))
        self.height = 0
        self.labels: list[str] = []
        self.rows: list[str] = []
        self.writes = writes_of(facts.events)
        self.buckets = buckets(facts.began_ns, facts.ended_ns, self.width // BUCKET_PIXELS)

    def html(self) -> str:
        """The picture: labels that stay, beside rows that scroll."""
        self._faults()
        self._rates()
        self._latencies()
        self._partitions()
        rows = [*self._shades(), *self._axis(), *self.rows]
        return (
            '<div class="timeline">'
            f'<svg class="labels" width="{LABELS_WIDTH}" height="{self.height}">{"".join(self.labels)}</svg>'
            f'<div class="scroll" tabindex="0" role="group" aria-label="Timeline"><svg width="{self.width}" '
            f'height="{self.height}" role="img" aria-label="What happened over time">{"".join(rows)}</svg></div></div>'
        )

    # -- rows --------------------------------------------------------------------------------------------------------

    def _faults(self) -> None:
        self._heading("Faults")
        bands = bands_of(self.facts.entries, self.facts.ended_ns)
        for node in self.facts.nodes:
            self._lane(f"node {node}", [one for one in bands if one.nodes == (node,)], f"node{node}")
        for link in sorted({one.nodes for one in bands if len(one.nodes) > 1}):
            self._lane(f"link {link[0]} – {link[1]}", [one for one in bands if one.nodes == link])

    def _lane(self, name: str, bands: Sequence[Band], key: str = "") -> None:
        y = self.height
        self._label(name, y + LANE - 6, key)
        self.rows.append(f'<line class="rule" x1="0" x2="{self.width}" y1="{y + LANE}" y2="{y + LANE}"/>')
        for one in bands:
            x, width = self._x(one.began_ns), max(self._x(one.ended_ns) - self._x(one.began_ns), 1.5)
            lasted = (one.ended_ns - one.began_ns) / 1e9
            tip = f"{name}: {one.what} at {self.facts.seconds(one.began_ns):.1f} s for {lasted:.1f} s"
            shown = one.what.removesuffix(" from clients")
            text = f'<text x="{x + 3:.1f}" y="{y + 13}">{shown}</text>' if width > LABEL_PIXELS + 4 * len(shown) else ""
            self.rows.append(
                f'<g class="band {one.what.replace(" ", "-")}"><title>{escape(tip)}</title>'
                f'<rect x="{x:.1f}" y="{y + 2}" width="{width:.1f}" height="{LANE - 4}" rx="2"/>{text}</g>'
            )
        self.height += LANE

    def _rates(self) -> None:
        self._heading("Writes per second")
        per_s = [max((end - begin) / 1e9, 1e-9) for begin, end in self.buckets]
        sets = [between(self.writes, *bucket) for bucket in self.buckets]
        good = [sum(one.acknowledged for one in some) / s for some, s in zip(sets, per_s, strict=True)]
        failed = [sum(one.outcome is Outcome.FAIL for one in some) / s for some, s in zip(sets, per_s, strict=True)]
        unknown = [sum(one.outcome is Outcome.UNKNOWN for one in some) / s for some, s in zip(sets, per_s, strict=True)]
        top = _round_up(max([*good, *failed, *unknown, 1.0]))
        self._scale([(0.0, "0"), (0.5, f"{top / 2:g}"), (1.0, f"{top:g}")])
        self._key([("good", "acknowledged"), ("unknown", "unknown outcome"), ("failed", "failed")])
        self.rows.append(f'<path class="good line" d="{self._path(good, top)}"/>')
        for name, values in (("good", good), ("unknown", unknown), ("failed", failed)):
            if any(values):
                area = f"{self._path(values, top)} V{self.height + CHART} H0 Z"
                self.rows.append(f'<path class="{name} area" d="{area}"/>')
        self.height += CHART

    def _latencies(self) -> None:
        self._heading("Latency of writes")
        self._scale([(_log(value), _seconds(value)) for value in LATENCIES_S])
        self._key([("median", "median"), ("worst", "longest")])
        worst, median = [], []
        for begin, end in self.buckets:
            some = [one.latency_ns / 1e9 for one in between(self.writes, begin, end) if one.acknowledged]
            if some:
                x = (self._x(begin) + self._x(end)) / 2
                worst.append(f'<circle cx="{x:.1f}" cy="{self._y(_log(max(some))):.1f}" r="1.6"/>')
                median.append(f'<circle cx="{x:.1f}" cy="{self._y(_log(statistics.median(some))):.1f}" r="1.6"/>')
        self.rows += [f'<g class="worst">{"".join(worst)}</g>', f'<g class="median">{"".join(median)}</g>']
        self.height += CHART

    def _partitions(self) -> None:
        stretches = stretches_of(self.facts.entries, self.facts.ended_ns)
        if not stretches:
            return
        self._heading("Leaders, in-sync")
        for tp, some in stretches.items():
            name = f"{tp.topic}-{tp.partition}"
            self._label(name, self.height + 12)
            for one in some:
                self._stretch(name, one)
            self.height += STRIP

    def _stretch(self, name: str, one: Stretch) -> None:
        x, width = self._x(one.began_ns), max(self._x(one.ended_ns) - self._x(one.began_ns), 0.5)
        leader = f"leader {one.leader}" if one.leader >= 0 else "no leader"
        in_sync = ", ".join(map(str, one.in_sync))
        tip = f"{name} from {self.facts.seconds(one.began_ns):.1f} s: {leader}, in sync {in_sync}"
        place = f'x="{x:.1f}" width="{width:.1f}"'
        drawn = [f'<rect class="{_node(one.leader)}" {place} y="{self.height + 2}" height="8"/>']
        for index, node in enumerate(self.facts.nodes):
            if node in one.in_sync:
                drawn.append(f'<rect class="{_node(node)}" {place} y="{self.height + 12 + 3 * index}" height="2"/>')
        self.rows.append(f"<g><title>{escape(tip)}</title>{''.join(drawn)}</g>")

    # -- what rows are made of -----------------------------------------------------------------------------------------

    def _heading(self, text: str) -> None:
        self.height += GAP
        self.labels.append(f'<text class="heading" x="0" y="{self.height - 10}">{escape(text)}</text>')

    def _label(self, text: str, y: float, key: str = "") -> None:
        shown = text if len(text) <= 24 else f"{text[:23]}…"
        mark = f'<rect class="{key}" x="{LABELS_WIDTH - 10}" y="{y - 8}" width="8" height="8"/>' if key else ""
        x = LABELS_WIDTH - (16 if key else 6)
        tip = f"<title>{escape(text)}</title>"
        self.labels.append(f'<text class="name" x="{x}" y="{y}">{tip}{escape(shown)}</text>{mark}')

    def _scale(self, marks: Iterable[tuple[float, str]]) -> None:
        """Lines at heights between 0 and 1, with labels."""
        for share, text in marks:
            y = self._y(share)
            self.labels.append(f'<text class="name" x="{LABELS_WIDTH - 6}" y="{y + 4:.1f}">{text}</text>')
            self.rows.append(f'<line class="rule" x1="0" x2="{self.width}" y1="{y:.1f}" y2="{y:.1f}"/>')

    def _key(self, entries: Iterable[tuple[str, str]]) -> None:
        """What the colours of a chart mean, below its heading."""
        for index, (name, text) in enumerate(entries):
            y = self.height + 14 + 18 * index
            self.labels.append(
                f'<rect class="{name} key" x="0" y="{y - 8}" width="8" height="8"/><text x="13" y="{y}">{text}</text>'
            )

    def _path(self, values: Sequence[float], top: float) -> str:
        points = []
        for value, (begin, end) in zip(values, self.buckets, strict=True):
            y = self._y(value / top)
            points.append(f"{self._x(begin):.1f},{y:.1f} {self._x(end):.1f},{y:.1f}")
        return f"M{' L'.join(points)}"

    def _shades(self) -> list[str]:
        """The times of faults, behind all rows."""
        drawn = []
        for one in (entry for entry in self.facts.entries if isinstance(entry, Fault)):
            x, end = self._x(one.began_ns), self._x(one.ended_ns)
            width = max(end - x, 1)
            drawn.append(f'<rect class="shade" x="{x:.1f}" y="0" width="{width:.1f}" height="{self.height}"/>')
        return drawn

    def _axis(self) -> list[str]:
        step = next((one for one in TICKS_S if one * self.width / self.span_s >= TICK_PIXELS), TICKS_S[-1])
        drawn = []
        for second in range(0, math.floor(self.span_s) + 1, step):
            x = second * self.width / self.span_s
            drawn.append(f'<text class="tick" x="{x + 3:.1f}" y="12">{second // 60}:{second % 60:02d}</text>')
            drawn.append(f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{self.height}"/>')
        return drawn

    def _x(self, at_ns: int) -> float:
        return self.facts.seconds(at_ns) * self.width / self.span_s

    def _y(self, share: float) -> float:
        return self.height + CHART * (1 - share)


def timeline(facts: RunFacts) -> str:
    """The picture of a run."""
    return Timeline(facts).html()


def _node(node: int) -> str:
    """The class of a node's colour."""
    return f"node{node}" if node >= 0 else "none"


def _log(value: float) -> float:
    low, high = math.log10(LATENCIES_S[0]), math.log10(LATENCIES_S[-1])
    return min(max((math.log10(max(value, 1e-9)) - low) / (high - low), 0.0), 1.0)


def _seconds(value: float) -> str:
    return f"{value * 1000:g} ms" if value < 1 else f"{value:g} s"


def _round_up(value: float) -> float:
    """The next 1, 2 or 5 with zeros."""
    power: float = 10 ** math.floor(math.log10(value))
    return next(power * one for one in (1, 2, 5, 10) if power * one >= value)


