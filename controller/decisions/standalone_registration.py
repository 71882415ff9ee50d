"""Registers the broker of a standalone node, which is the whole cluster.

The brokers of a cluster register with BrokerRegistration (`broker_registration.py`).

Source: `ClusterControlManager.registerBroker`.
"""

from dataclasses import dataclass

from minikafka.controller.decisions.decision import Decision
from minikafka.controller.decisions.leader_election import NO_LEADER, without
from minikafka.controller.metadata.features import cordons_directories
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.records import BrokerRecord, Endpoint, PartitionChange
from minikafka.storage.directories.directory_ids import is_online

__all__ = ["Registration", "decide"]


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a broker process.

    Attributes:
        incarnation_id: the id of the process, new with each start.
        clean: whether the last shutdown was clean, so that no record of its logs is missing.
        log_dirs: the ids of the data directories that the broker can use.
        cordoned: the ids of the data directories that are cordoned (KIP-1066).
    """

    node_id: int
    incarnation_id: bytes
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    clean: bool = False
    log_dirs: tuple[bytes, ...] = ()
    cordoned: tuple[bytes, ...] = ()


def decide(image: Image, registration: Registration) -> Decision[int]:
    """Register the broker unfenced; the reply is its broker epoch.

    The broker is elected in a new leader epoch for the partitions that it led, because records that it had not synced
    may be lost and their offsets assigned again (KAFKA-7415). After a clean shutdown no record is lost, and its leader
    epochs continue. The broker is also elected for leaderless partitions that it may lead. A partition in a data
    directory that the broker cannot use has no leader.
    """
    epoch = image.last_broker_epoch + 1
    node_id = registration.node_id
    broker = BrokerRecord(
        node_id,
        epoch,
        registration.incarnation_id,
        registration.endpoints,
        registration.rack,
        fenced=False,
        log_dirs=registration.log_dirs,
        cordoned=registration.cordoned if cordons_directories(image.features) else (),
    )
    elections = [
        change
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if (change := _election(topic.id, index, state, registration)) is not None
    ]
    return Decision([broker, *elections], epoch)


def _election(
    topic_id: bytes, index: int, state: PartitionState, registration: Registration
) -> PartitionChange | None:
    node_id = registration.node_id
    if not is_online(state.directory(node_id), registration.log_dirs):
        if state.leader != node_id:
            return None
        isr, elr = without(state.isr, node_id), (*state.elr, node_id)
        return PartitionChange(topic_id, index, leader=NO_LEADER, isr=isr, elr=elr, last_known_elr=(node_id,))
    if (state.leader == node_id and not registration.clean) or (state.leader < 0 and node_id in state.isr):
        return PartitionChange(topic_id, index, leader=node_id)
    if state.leader < 0 and node_id in state.elr + state.last_known_elr:
        return PartitionChange(topic_id, index, leader=node_id, isr=(node_id,), elr=(), last_known_elr=())
    return None
