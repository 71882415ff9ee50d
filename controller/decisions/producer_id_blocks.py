"""Allocates blocks of producer ids, so that no two brokers assign the same id (KIP-360).

Source: `ProducerIdControlManager`.
"""

from dataclasses import dataclass

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ProducerIdsRecord
from minikafka.protocol.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError, UnknownServerError

__all__ = ["BLOCK_SIZE", "ProducerIdBlock", "decide"]

BLOCK_SIZE = 1000
_LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The producer ids from `first` to `first + size - 1`."""

    first: int
    size: int


def decide(image: Image, *, node_id: int, broker_epoch: int) -> Decision[ProducerIdBlock]:
    """The next block for a broker.

    Raises:
        BrokerIdNotRegisteredError: the broker is not registered.
        StaleBrokerEpochError: the broker has registered again since.
        UnknownServerError: all ids of 63 bits are allocated.
    """
    broker = image.brokers.get(node_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"Broker ID {node_id} is not currently registered")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpochError(f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}")
    first = image.next_producer_id
    if first > _LAST - BLOCK_SIZE:
        raise UnknownServerError("Exhausted all producerIds")
    return Decision([ProducerIdsRecord(node_id, broker_epoch, first + BLOCK_SIZE)], ProducerIdBlock(first, BLOCK_SIZE))
