"""`escaped`: a logger whose lines a terminal can show: what brokers, and others, have named is escaped in them."""

from __future__ import annotations

import logging

from minikafka.protocol.visible import visible


def escaped(logger: logging.Logger) -> logging.Logger:
    """The logger, whose arguments are text from now on, with escapes for what a terminal obeys; numbers stay."""
    logger.addFilter(_escape)  # once only, however often
    return logger


def _escape(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        record.args = tuple(one if isinstance(one, int | float) else visible(str(one)) for one in record.args)
    return True
