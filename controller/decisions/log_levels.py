"""Validates changes of a node's log levels, which last until the node stops (KIP-412).

Source: `RuntimeLoggerManager`.
"""

from collections.abc import Mapping

from minikafka.protocol.errors import InvalidConfigError, InvalidRequestError

__all__ = ["LEVELS", "ROOT", "changed"]

LEVELS = ("FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
ROOT = "root"


def changed(logger: str, level: str | None, levels: Mapping[str, str]) -> str:
    """The new level of a logger; None resets it to the level of the root logger.

    Raises:
        InvalidConfigError: the logger or the level is unknown.
        InvalidRequestError: the level of the root logger cannot be reset.
    """
    if logger not in levels:
        raise InvalidConfigError(f"Logger {logger} does not exist!")
    if level is None and logger == ROOT:
        raise InvalidRequestError("Removing the log level of the root logger is not allowed")
    if level is not None and level not in LEVELS:
        raise InvalidConfigError(
            f"Cannot set the log level of {logger} to {level} as it is not a supported log level. "
            f"Valid log levels are {', '.join(sorted(LEVELS))}"
        )
    return levels[ROOT] if level is None else level
