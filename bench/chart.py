"""Draws ratios as bars, as SVG: to the right of 1 what is better, to the left what is worse, by powers of two."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from html import escape

from bench.results import shown

WIDTH, LABELS, RIGHT, TOP, BAR = 760, 250, 60, 50, 20
BETTER, WORSE, GRID = "#2a7f62", "#c26a2d", "#ddd"
TITLE = "minikafka beside Apache Kafka: times better (green) or worse (orange)"


def bar_chart(ratios: Sequence[tuple[str, float]]) -> str:
    """The SVG of (label, ratio) pairs, one bar each. A ratio is above 0; the axis ends at powers of two around them."""
    powers = [math.log2(ratio) for _, ratio in ratios]
    least, most = math.floor(min([-1.0, *powers])), math.ceil(max([1.0, *powers]))
    scale = (WIDTH - LABELS - RIGHT) / (most - least)
    height = TOP + BAR * len(ratios) + 10

    def x(power: float) -> float:
        return LABELS + (power - least) * scale

    grid = [
        f'<line x1="{x(power):.1f}" x2="{x(power):.1f}" y1="{TOP - 4}" y2="{height - 8}" stroke="{GRID}"/>'
        f'<text x="{x(power):.1f}" y="{TOP - 9}" text-anchor="middle">{Fraction(2) ** power}</text>'
        for power in range(least, most + 1)
    ]
    bars = [
        bar(label, ratio, x(min(power, 0.0)), x(max(power, 0.0)), TOP + BAR * place)
        for place, ((label, ratio), power) in enumerate(zip(ratios, powers, strict=True))
    ]
    box = f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {box}>',
            f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
            f'<text x="8" y="20" font-size="15">{TITLE}</text>',
            *grid,
            *bars,
            "</svg>",
            "",
        ]
    )


def bar(label: str, ratio: float, left: float, right: float, top: int) -> str:
    """The label, the bar from left to right, and its ratio behind it."""
    return (
        f'<text x="{LABELS - 8}" y="{top + 14}" text-anchor="end">{escape(label)}</text>'
        f'<rect x="{left:.1f}" y="{top + 3}" width="{right - left:.1f}" height="{BAR - 6}"'
        f' fill="{BETTER if ratio >= 1 else WORSE}"/>'
        f'<text x="{right + 5:.1f}" y="{top + 14}">{shown(ratio)}</text>'
    )
