"""What a change of min.insync.replicas means for eligible leader replicas (KIP-966).

A replica is eligible because nothing could be committed without it. Where the demand falls, those in sync may be enough
from now on: they commit, and whoever is not among them lacks something. So it stops being eligible in the very decision
that changes the setting. Source: `ReplicationControlManager.getPartitionElrUpdatesForConfigChanges`.
"""

from collections.abc import Iterator, Sequence

from minikafka.controller.decisions.broker_settings import MIN_ISR
from minikafka.controller.metadata.image import Image, Topic
from minikafka.controller.metadata.records import ConfigRecord, PartitionChange, Record
from minikafka.controller.settings.effective_settings import ALL_BROKERS, InForce, ResourceType
from minikafka.protocol.settings.registry import NODE_SETTINGS

__all__ = ["no_longer_eligible"]


def no_longer_eligible(image: Image, records: Sequence[Record], in_force: InForce) -> Iterator[PartitionChange]:
    """The partitions in which enough are in sync once these records are applied."""
    changed = {
        (record.resource_type, record.resource_name): record.value
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR
    }
    if not changed:
        return
    for topic in _affected(image, changed):
        minimum = _minimum(image, topic, changed, in_force)
        for index, state in enumerate(topic.partitions):
            if state.elr and len(state.isr) >= min(minimum, len(state.replicas)):
                yield PartitionChange(topic.id, index, elr=())


Changed = dict[tuple[int, str], str | None]
"""New values of min.insync.replicas by resource; None where it is taken away."""


def _affected(image: Image, changed: Changed) -> list[Topic]:
    if (ResourceType.BROKER, ALL_BROKERS) in changed:
        return list(image.topics.values())
    return [image.topics[name] for kind, name in changed if kind == ResourceType.TOPIC and name in image.topics]


def _minimum(image: Image, topic: Topic, changed: Changed, in_force: InForce) -> int:
    """The topic's own, or else that of all brokers, or else what the node was started with."""
    for key in ((ResourceType.TOPIC, topic.name), (ResourceType.BROKER, ALL_BROKERS)):
        text = changed[key] if key in changed else image.config(*key).get(MIN_ISR)
        if text is not None:
            value = NODE_SETTINGS[MIN_ISR].parse(text)
            assert isinstance(value, int), "checked when it was set"
            return value
    return in_force.static.number(MIN_ISR)
