"""Notifies the subscribers of committed metadata records: a bug in one of them ends neither the others nor the node.

Source: Kafka's `MetadataLoader`, whose fault handler counts publishers that fail (KIP-859).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence

import structlog

from minikafka.controller.failures import FAILURES
from minikafka.controller.metadata.records import Record
from minikafka.protocol.errors import KafkaStorageError
from minikafka.storage.directories.directory_identity import WrongDirectory

__all__ = ["Subscriber", "notify"]

log = structlog.get_logger("minikafka.controller")

Subscriber = Callable[[Sequence[Record]], Awaitable[None]]
"""A function that is called with the records of each committed decision, after the image has changed."""


async def notify(subscribers: Iterable[Subscriber], records: Sequence[Record]) -> None:
    """Call each subscriber, one after the other. Other exceptions than those below are logged and counted.

    Raises:
        WrongDirectory, OSError, KafkaStorageError: a subscriber raised it; the node must stop.
    """
    for subscriber in subscribers:
        try:
            await subscriber(records)
        except (WrongDirectory, OSError, KafkaStorageError):
            raise
        except Exception:
            log.exception("metadata not applied", records=len(records))
            FAILURES["metadata"] += 1
