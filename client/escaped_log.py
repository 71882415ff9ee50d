"""`escaped`: a logger that escapes control characters in its arguments, such as names from brokers, for terminals."""

from __future__ import annotations

import logging

from minikafka.protocol.visible import visible


def escaped(logger: logging.Logger) -> logging.Logger:
    """Make a logger convert its arguments, except numbers, to text whose control characters are escaped.

    Returns the same logger.
    """
    logger.addFilter(_escape)  # `addFilter` adds a filter only once.
    return logger


def _escape(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(one if isinstance(one, int | float) else visible(str(one)) for one in record.args)
    return True
