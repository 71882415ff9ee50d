"""Parses points in time given on the command line. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from minikafka.cli.arguments.numbers import whole

_AGO = re.compile(r"-([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
KNOWN = "like 2026-01-31T12:00:00Z (without a zone: local time), 1767182400000 (ms since 1970), -10m, -2h, -3d or now"


def parse_time(text: str, now_ms: int) -> int:
    """Parse an ISO 8601 date or time, a number of ms, or a time before now such as -10m into ms since 1970.

    Raises ValueError for another format.
    """
    text = text.strip()
    if text == "now":
        return now_ms
    moment_ms = whole(text, least=0)
    if moment_ms is not None:
        return moment_ms
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return max(0, now_ms - round(float(ago[1]) * _UNIT_MS[ago[2]]))
        moment = datetime.fromisoformat(text)
        return max(0, round(moment.timestamp() * 1000))
    except (ValueError, OverflowError, OSError):
        raise ValueError(f"{text!r} is not a time: write it {KNOWN}") from None
