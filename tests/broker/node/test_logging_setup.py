"""The log level of a node, which clients can change while it runs (KIP-412)."""

import pytest
import structlog

from minikafka.broker.node.logging_setup import Threshold


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
