"""The log level of a node, which clients can change while it runs (KIP-412)."""

from pathlib import Path

import pytest
import structlog

from minikafka.broker.node.logging_setup import BestEffort, Threshold, what_matters_first


@pytest.mark.parametrize(
    ("level", "logged"),
    [
        ("TRACE", ["debug", "info", "warning", "error", "exception"]),
        ("INFO", ["info", "warning", "error", "exception"]),
        ("WARN", ["warning", "error", "exception"]),
        ("FATAL", []),
    ],
)
def test_events_below_the_level_are_dropped(level: str, logged: list[str]) -> None:
    levels = {"root": "OFF"}
    threshold = Threshold(levels)
    levels["root"] = level
    passed = []
    for method in ("debug", "info", "warning", "error", "exception"):
        try:
            threshold(None, method, {"event": "x"})
        except structlog.DropEvent:
            continue
        passed.append(method)
    assert passed == logged


def test_a_line_begins_with_time_level_and_event() -> None:
    line = what_matters_first(None, "info", {"broker": 1, "event": "broker fenced", "level": "info", "timestamp": "t"})
    assert list(line) == ["timestamp", "level", "event", "broker"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_under_the_log_does_not_end_the_node() -> None:
    file = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115 (to close it fails)
    logger = structlog.PrintLogger(BestEffort(file))  # type: ignore[arg-type]
    for _ in range(1000):
        logger.msg("x" * 100)
    with pytest.raises(OSError, match="No space left"):
        file.close()
