"""Producer ids, a block at a time, so that no broker ever gives what another gave (AllocateProducerIds, KIP-360).

Source: `ProducerIdControlManager`.
"""

from dataclasses import dataclass

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ProducerIdsRecord
from minikafka.protocol.errors import BrokerIdNotRegisteredError, StaleBrokerEpochError, UnknownServerError

__all__ = ["BLOCK_SIZE", "ProducerIds", "decide"]

BLOCK_SIZE = 1000
_LAST = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """The ids `first` to `first + size - 1` are the broker's."""

    first: int
    size: int


def decide(image: Image, *, node_id: int, broker_epoch: int) -> Decision[ProducerIds]:
    """The next block for a broker.

    Raises:
        BrokerIdNotRegisteredError: nobody knows it.
        StaleBrokerEpochError: it has registered again since.
        UnknownServerError: all ids of 63 bits are gone.
    """
    broker = image.brokers.get(node_id)
    if broker is None:
        raise BrokerIdNotRegisteredError(f"Broker ID {node_id} is not currently registered")
    if broker.epoch != broker_epoch:
        raise StaleBrokerEpochError(f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}")
    first = image.next_producer_id
    if first > _LAST - BLOCK_SIZE:
        raise UnknownServerError("Exhausted all producerIds")
    return Decision([ProducerIdsRecord(node_id, broker_epoch, first + BLOCK_SIZE)], ProducerIds(first, BLOCK_SIZE))
