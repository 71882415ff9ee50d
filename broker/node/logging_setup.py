"""Configures the log of a node on standard error: formatted for a terminal, JSON lines otherwise.

The level can be changed while the node runs, with IncrementalAlterConfigs of a broker logger (KIP-412). The table of
levels belongs to the controller, and is read for every event.
"""

import sys
from collections.abc import Mapping, MutableMapping
from itertools import islice
from typing import Any, TextIO, cast

import structlog

from minikafka.broker.node.log_writer import LogWriter
from minikafka.protocol.shortened import shortened
from minikafka.protocol.visible import obeys_escapes, visible

log = structlog.get_logger("minikafka")

ITEMS_MAX = 100
"""The number of items of a list or mapping that a log event shows. Further items are only counted."""
ROOT = "root"
SEVERITY = {
    "trace": 0, "debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "exception": 40, "fatal": 50,
    "critical": 50,
}  # fmt: skip

EventDict = MutableMapping[str, Any]


class Threshold:
    """Drops events below the current level.

    Args:
        levels: The level of each logger, with Kafka's names of levels; the only logger is `root`. Read for each event.
    """

    def __init__(self, levels: dict[str, str]) -> None:
        self._levels = levels

    def __call__(self, logger: object, method_name: str, event: EventDict) -> EventDict:
        """A structlog processor.

        Raises:
            structlog.DropEvent: The event is below the level.
        """
        if SEVERITY.get(method_name, 20) < SEVERITY[self._levels[ROOT].lower()]:
            raise structlog.DropEvent
        return event


def what_matters_first(logger: object, method_name: str, event: EventDict) -> EventDict:
    """A structlog processor that puts time, level and event first in a line, so that people can read lines quickly."""
    first = {name: event.pop(name) for name in ("timestamp", "level", "event") if name in event}
    return {**first, **event}


def brief_values(logger: object, method_name: str, event: EventDict) -> EventDict:
    """A structlog processor that shortens values: peers choose names, reasons and settings, of any length."""
    for name, value in event.items():
        is_trace = name == "exception" and isinstance(value, str)
        event[name] = "\n".join(map(shortened, value.split("\n"))) if is_trace else brief(value)
    return event


def brief(value: Any) -> Any:
    """A copy of an event's value with shortened texts, and only the first `ITEMS_MAX` items of a list or mapping."""
    match value:
        case None | bool() | int() | float():
            return value
        case str():
            return shortened(value)
        case dict():
            kept = {shortened(str(name)): brief(one) for name, one in islice(value.items(), ITEMS_MAX)}
            return kept | ({"…": f"{len(value) - ITEMS_MAX} more"} if len(value) > ITEMS_MAX else {})
        case list() | tuple() | set() | frozenset():
            kept_items = [brief(one) for one in islice(value, ITEMS_MAX)]
            return kept_items + ([f"… {len(value) - ITEMS_MAX} more"] if len(value) > ITEMS_MAX else [])
    return shortened(repr(value))


def visible_values(logger: object, method_name: str, event: EventDict) -> EventDict:
    """A structlog processor for terminals that escapes control sequences, since clients choose ids and texts."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = visible(value, lines=name == "exception")
    return event


def wants_colors(environment: Mapping[str, str]) -> bool:
    """Whether to color the log on a terminal: not if NO_COLOR is set, or if the terminal obeys no escape sequences."""
    return not environment.get("NO_COLOR") and obeys_escapes(environment.get("TERM", ""))


def log_to_stderr(levels: dict[str, str], *, colors: bool) -> LogWriter:
    """Configure structlog for the process.

    Args:
        levels: The level of each logger, as of `Threshold`; it may change later.
        colors: Whether to color the log, if standard error is a terminal.

    Returns:
        The writer of the lines. Call its `finish` before the process ends.
    """
    writer = LogWriter(sys.stderr, lambda lines: log.warning("lines of the log dropped", lines=lines))
    on_terminal = sys.stderr is not None and sys.stderr.isatty()
    console = structlog.dev.ConsoleRenderer(colors=colors)
    renderer = console if on_terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            Threshold(levels),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.processors.format_exc_info,
            brief_values,
            visible_values if on_terminal else what_matters_first,
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", writer)),
        cache_logger_on_first_use=True,
    )
    return writer
