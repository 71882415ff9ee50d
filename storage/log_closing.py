"""Closes many logs at a clean shutdown, with concurrent fsyncs."""

from collections.abc import Iterator, Sequence

from minikafka.protocol.errors import KafkaError
from minikafka.storage.disk import Disk
from minikafka.storage.flush import Flush
from minikafka.storage.log import Log

__all__ = ["close_logs"]

_CLOSED_AT_ONCE = 100


def close_logs(disk: Disk, logs: Sequence[Log]) -> bool:
    """Closes the logs; returns whether all succeeded."""
    succeeded = True
    for part in _batched(logs):
        succeeded &= _close(disk, part)
    return succeeded


def _batched(logs: Sequence[Log]) -> Iterator[Sequence[Log]]:
    for start in range(0, len(logs), _CLOSED_AT_ONCE):
        yield logs[start : start + _CLOSED_AT_ONCE]


def _close(disk: Disk, logs: Sequence[Log]) -> bool:
    succeeded = True
    begun: list[tuple[Log, Flush | None]] = []
    for log in logs:
        try:
            begun.append((log, log.begin_close()))
        except KafkaError:
            succeeded = False
    outcomes = disk.run_all([flush.sync for _, flush in begun if flush is not None])
    errors = iter(outcomes)
    for log, flush in begun:
        try:
            log.end_close(flush, None if flush is None else next(errors))
        except KafkaError:
            succeeded = False
    return succeeded and all(log.failure is None for log in logs)
