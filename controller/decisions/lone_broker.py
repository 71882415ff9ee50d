"""The broker of a node that is the whole cluster comes up; nobody is asked. Others: `broker_registration.py`.

Source: `ClusterControlManager.registerBroker`.
"""

from dataclasses import dataclass

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerRecord, Endpoint, PartitionChange

__all__ = ["Registration", "decide"]


@dataclass(frozen=True, slots=True)
class Registration:
    """How a broker introduces itself.

    Attributes:
        incarnation_id: new with each start.
        clean: whether its last shutdown was a clean one, after which nothing of its logs can be missing.
    """

    node_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    clean: bool = False


def decide(image: Image, registration: Registration) -> Decision[int]:
    """Take the broker in, alive; the reply is its broker epoch.

    Partitions that it led, and those without a leader that it is in sync for, get it as leader of a new
    epoch: what it had not synced before it went may be gone, and offsets may come again (KAFKA-7415). After a
    clean shutdown nothing is gone, and what it led goes on as it was.
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
