"""Logging of a node, on standard error: formatted for a terminal, JSON lines otherwise.

The level can be changed while the node runs (IncrementalAlterConfigs of a broker logger, KIP-412): the table of levels
belongs to the controller, and is read for every event.
"""

import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

ROOT = "root"
SEVERITY = {
    "trace": 0, "debug": 10, "info": 20, "warn": 30, "warning": 30, "error": 40, "exception": 40, "fatal": 50,
    "critical": 50,
}  # fmt: skip

EventDict = MutableMapping[str, Any]


class Threshold:
    """Drops events below the current level.

    Args:
        levels: Level by logger, with Kafka's names; the only logger is `root`. Read for each event.
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


def log_to_stderr(levels: dict[str, str]) -> None:
    """Configure structlog for the process; `levels` may change later."""
    on_terminal = sys.stderr.isatty()
    renderer = structlog.dev.ConsoleRenderer() if on_terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            Threshold(levels),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *([] if on_terminal else [structlog.processors.format_exc_info]),
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
