"""The log level of a node, which clients can change while it runs (KIP-412)."""

import json
from io import StringIO

import pytest
import structlog

from minikafka.broker.node.logging_setup import (
    Threshold,
    brief_values,
    log_to_stderr,
    wants_colors,
    what_matters_first,
)
from minikafka.protocol.shortened import LENGTH_MAX


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


LONG = "n" * 65_536


@pytest.mark.parametrize(
    "value",
    [
        LONG,
        LONG.encode(),
        ValueError(LONG),
        [LONG] * 3_000,
        tuple(range(100_000)),
        {LONG: LONG},
        {str(number): LONG for number in range(3_000)},
        [[[LONG] * 200]],
        "\udcff",
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("name", ["reason", "settings", "exception"])
def test_no_value_makes_a_long_line(name: str, value: object) -> None:
    event = brief_values(None, "info", {"event": "peer handshake refused", name: value})
    line = structlog.processors.JSONRenderer()(None, "info", event)
    assert len(line) < 150 * LENGTH_MAX
    assert len(line) < 2 * LENGTH_MAX or not isinstance(value, str | bytes | ValueError)
    json.loads(line)


@pytest.mark.parametrize("value", [None, True, 1, 1.5, "text", ["a", 1], {"retention.ms": None}])
def test_short_values_stay_as_they_are(value: object) -> None:
    assert brief_values(None, "info", {"event": "x", "key": value}) == {"event": "x", "key": value}


def test_a_node_logs_by_what_shortens(capsys: pytest.CaptureFixture[str]) -> None:
    before = structlog.get_config()
    try:
        writer = log_to_stderr({"root": "INFO"}, colors=True)
        structlog.get_logger().error("peer handshake refused", reason=LONG)
        try:
            raise ValueError(LONG)
        except ValueError:
            structlog.get_logger().exception("request failed")
        writer.finish()
    finally:
        structlog.configure(**before)
    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["peer handshake refused", "request failed"]
    assert all(len(line) < 5 * LENGTH_MAX for line in lines)


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "is_colored"),
    [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)],
)
def test_the_log_is_colored_where_that_is_wanted(
    environment: dict[str, str], is_colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, terminal = structlog.get_config(), Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    try:
        writer = log_to_stderr({"root": "INFO"}, colors=wants_colors({"TERM": "xterm", **environment}))
        structlog.get_logger().info("node ready", node=1)
        writer.finish()
    finally:
        structlog.configure(**before)
    assert "node ready" in terminal.getvalue()
    assert ("\x1b" in terminal.getvalue()) == is_colored
