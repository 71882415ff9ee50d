"""Registers the broker of a standalone node, which is the whole cluster.

The brokers of a cluster register with BrokerRegistration (`broker_registration.py`).

Source: `ClusterControlManager.registerBroker`.
"""

from dataclasses import dataclass

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerRecord, Endpoint, PartitionChange

__all__ = ["Registration", "decide"]


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a broker process.

    Attributes:
        incarnation_id: new with each start.
        clean: whether the last shutdown was clean, so that no record of its logs is missing.
    """

    node_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    clean: bool = False


def decide(image: Image, registration: Registration) -> Decision[int]:
    """Registers the broker unfenced; the reply is its broker epoch.

    It is elected in a new leader epoch for the partitions that it led, and for the leaderless ones whose ISR it is in:
    records that it had not synced may be lost and their offsets assigned again (KAFKA-7415). After a clean shutdown no
    record is lost, and its leader epochs continue.
    """
    epoch = image.last_broker_epoch + 1
    node_id = registration.node_id
    broker = BrokerRecord(
        node_id, epoch, registration.incarnation_id, registration.endpoints, registration.rack, fenced=False
    )
    elections = [
        PartitionChange(topic.id, index, leader=node_id)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if (state.leader == node_id and not registration.clean) or (state.leader < 0 and node_id in state.isr)
    ]
    return Decision([broker, *elections], epoch)
