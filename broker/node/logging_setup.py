"""What a node says of itself: on standard error, for people on a terminal, as JSON lines otherwise.

The level can be changed while the node runs (IncrementalAlterConfigs of a broker logger, KIP-412): the table of levels
is the controller's, and every message is held against it.
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
    """Drops what is below the level in force.

    Args:
        levels: Level by logger, in Kafka's words; there is one logger, `root`. Read at each message.
    """

    def __init__(self, levels: dict[str, str]) -> None:
        self._levels = levels

    def __call__(self, logger: object, method_name: str, event: EventDict) -> EventDict:
        """A structlog processor.

        Raises:
            structlog.DropEvent: The message is not to be heard.
        """
        if SEVERITY.get(method_name, 20) < SEVERITY[self._levels[ROOT].lower()]:
            raise structlog.DropEvent
        return event


def log_to_stderr(levels: dict[str, str]) -> None:
    """Set logging up for the process; `levels` may change later."""
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
