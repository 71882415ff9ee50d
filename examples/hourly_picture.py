"""Draws a bar chart by hour of the day as SVG, without a plotting library."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 48, 16, 44, 40
HOURS = 24
TITLE = "Mean departure delay from New York in 2013, minutes by hour"


def draw(delays: Sequence[tuple[int, float]], title: str = TITLE) -> str:
    """The SVG of (hour, mean delay in minutes) pairs."""
    greatest = max([delay for _, delay in delays], default=1.0)
    step = 5 if greatest <= 30 else 10
    scale = (HEIGHT - TOP - BOTTOM) / (step * -(-greatest // step))
    floor = HEIGHT - BOTTOM
    lines = [
        f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{floor - minutes * scale:.1f}" y2="{floor - minutes * scale:.1f}"'
        f' stroke="#ddd"/><text x="{LEFT - 8}" y="{floor - minutes * scale + 4:.1f}" text-anchor="end">{minutes}</text>'
        for minutes in range(0, int(step * -(-greatest // step)) + 1, step)
    ]
    slot = (WIDTH - LEFT - RIGHT) / HOURS
    bars = [
        f'<rect x="{LEFT + hour * slot + 3:.1f}" y="{floor - max(delay, 0) * scale:.1f}" width="{slot - 6:.1f}"'
        f' height="{max(delay, 0) * scale:.1f}" fill="#3b6ea5"><title>{hour:02}:00 {delay:.1f} min</title></rect>'
        for hour, delay in delays
    ]
    labels = [
        f'<text x="{LEFT + (hour + 0.5) * slot:.1f}" y="{floor + 18}" text-anchor="middle">{hour:02}</text>'
        for hour in range(0, HOURS, 2)
    ]
    heading = f'<text x="{LEFT}" y="24" font-size="15">{title}</text>'
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {box}>'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return "\n".join([head, background, heading, *lines, *bars, *labels, "</svg>", ""])
