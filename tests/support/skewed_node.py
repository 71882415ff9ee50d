"""Runs a node whose clock is ahead: `python skewed_node.py SECONDS server --config FILE`. Monotonic time is right."""

from __future__ import annotations

import sys
import time


def set_clock(ahead_s: int) -> None:
    """Change what this process takes for the time of day."""
    right_s, right_ns = time.time, time.time_ns
    time.time = lambda: right_s() + ahead_s
    time.time_ns = lambda: right_ns() + ahead_s * 1_000_000_000


if __name__ == "__main__":
    set_clock(int(sys.argv[1]))
    from minikafka.cli.main import main

    main(sys.argv[2:])
