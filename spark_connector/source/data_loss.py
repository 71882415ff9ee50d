"""Reports records that no longer exist: raises `DataLoss`, or logs a warning if `failOnDataLoss` is false."""

from __future__ import annotations

import logging

_logger = logging.getLogger(__name__)
_REMEDY = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by"
    " Kafka or the topic may have been deleted before all the data in the topic was processed. If you don't want your"
    ' query to fail on such cases, set the source option "failOnDataLoss" to "false".'
)


class DataLoss(Exception):
    """Records of the query no longer exist, and `failOnDataLoss` is true.

    Attributes:
        reason: which records, and why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"{reason} {_REMEDY}")
        self.reason = reason

    def __reduce__(self) -> tuple[type[DataLoss], tuple[str]]:
        return type(self), (self.reason,)


def report(reason: str, *, fail: bool) -> None:
    """Raises DataLoss; with `failOnDataLoss` false, logs a warning instead."""
    if fail:
        raise DataLoss(reason)
    _logger.warning("%s Continuing with the remaining records because failOnDataLoss is false.", reason)
