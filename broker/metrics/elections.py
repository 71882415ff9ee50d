"""`ElectionCounter`: the elections of leaders that the active controller decided, counted as their records are applied.

The metadata image has only the outcome of an election. Whether the election was unclean follows from the partition's
state before it, which is kept here.
Source: Kafka's `ControllerMetadataMetricsPublisher`.
"""

from collections.abc import Callable, Iterator, Sequence

from minikafka.broker.metrics.family import Collector, Family, total
from minikafka.controller.metadata.image import NO_LEADER, Image, PartitionState, changed, created
from minikafka.controller.metadata.partition_changes import elects_cleanly
from minikafka.controller.metadata.records import PartitionChange, PartitionRecord, Record, RemoveTopic

__all__ = ["ElectionCounter"]

UNKNOWN = PartitionState(NO_LEADER, 0, 0, (), ())
STATS = "kafka_controller_controllerstats"


class ElectionCounter:
    """Counts elections while this node is the active controller.

    Args:
        image: The committed metadata, as it is now.
        is_active: Whether this node is the active controller.
    """

    def __init__(self, image: Image, is_active: Callable[[], bool]) -> None:
        self._is_active = is_active
        self._before = {topic.id: dict(enumerate(topic.partitions)) for topic in image.topics.values()}
        self._all = self._eligible = self._unclean = 0

    async def applied(self, records: Sequence[Record]) -> None:
        """Count the elections in committed records. Called by the controller (`QuorumController.subscribe`)."""
        for record in records:
            match record:
                case PartitionChange():
                    self._changed(record)
                case PartitionRecord():
                    self._before.setdefault(record.topic_id, {})[record.partition] = created(record)
                case RemoveTopic():
                    self._before.pop(record.topic_id, None)
                case _:
                    pass

    def _changed(self, change: PartitionChange) -> None:
        partitions = self._before.setdefault(change.topic_id, {})
        before = partitions.get(change.partition, UNKNOWN)
        partitions[change.partition] = after = changed(before, change)
        if change.leader is not None and after.leader != NO_LEADER and self._is_active():
            self._all += 1
            self._eligible += after.leader not in before.isr and after.leader in before.elr
            self._unclean += not elects_cleanly(before, after)

    def collector(self) -> Collector:
        """Make the collector of the counts."""

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
