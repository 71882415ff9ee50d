"""The level of a node's log, which a client may change while it runs (KIP-412)."""

import pytest
import structlog

from minikafka.broker.node.logging_setup import Threshold


@pytest.mark.parametrize(
    ("level", "heard"),
    [
        ("TRACE", ["debug", "info", "warning", "error", "exception"]),
        ("INFO", ["info", "warning", "error", "exception"]),
        ("WARN", ["warning", "error", "exception"]),
        ("FATAL", []),
    ],
)
def test_only_what_is_severe_enough_is_heard(level: str, heard: list[str]) -> None:
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
    assert passed == heard
