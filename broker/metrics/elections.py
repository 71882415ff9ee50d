"""`ElectionCounter`: the elections of leaders that the active controller decided, counted as their records are applied.

The image has only the outcome: whether an election was unclean follows from the ISR before it, which is kept here.
Source: Kafka's `ControllerMetadataMetricsPublisher`.
"""

from collections.abc import Callable, Iterator, Sequence

from minikafka.broker.metrics.family import Collector, Family, total
from minikafka.controller.metadata.image import NO_LEADER, Image
from minikafka.controller.metadata.records import PartitionChange, PartitionRecord, Record, RemoveTopic

__all__ = ["ElectionCounter"]

Members = tuple[tuple[int, ...], tuple[int, ...]]
"""The ISR, and the eligible leader replicas."""
STATS = "kafka_controller_controllerstats"


class ElectionCounter:
    """Counts elections while this node is the active controller.

    Args:
        image: The committed metadata, as it is now.
        is_active: Whether this node is the active controller.
    """

    def __init__(self, image: Image, is_active: Callable[[], bool]) -> None:
        self._is_active = is_active
        self._members: dict[bytes, dict[int, Members]] = {
            topic.id: {index: (one.isr, one.elr) for index, one in enumerate(topic.partitions)}
            for topic in image.topics.values()
        }
        self._all = self._eligible = self._unclean = 0

    async def applied(self, records: Sequence[Record]) -> None:
        """Called with committed records (`QuorumController.subscribe`)."""
        for record in records:
            match record:
                case PartitionChange():
                    self._changed(record)
                case PartitionRecord():
                    self._members.setdefault(record.topic_id, {})[record.partition] = record.isr, record.elr
                case RemoveTopic():
                    self._members.pop(record.topic_id, None)
                case _:
                    pass

    def _changed(self, change: PartitionChange) -> None:
        partitions = self._members.setdefault(change.topic_id, {})
        isr, elr = partitions.get(change.partition, ((), ()))
        if change.leader is not None and change.leader != NO_LEADER and self._is_active():
            self._all += 1
            self._eligible += change.leader not in isr and change.leader in elr
            self._unclean += change.leader not in isr and change.leader not in elr
        partitions[change.partition] = (
            isr if change.isr is None else change.isr,
            elr if change.elr is None else change.elr,
        )

    def collector(self) -> Collector:
        """The counts."""

        def collect() -> Iterator[Family | None]:
            yield total("minikafka_leader_elections", "Leaders that this node elected as controller.", self._all)
            yield total(
                f"{STATS}_electionfromeligibleleaderreplicas",
                "Elections of a replica that was not in sync, but has every committed record (KIP-966).",
                self._eligible,
            )
            yield total(
                f"{STATS}_uncleanleaderelections",
                "Elections of a replica that may lack committed records.",
                self._unclean,
            )

        return collect
