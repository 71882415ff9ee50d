"""Collects the metrics of the controller and of the metadata log, as this node knows them."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from minikafka.broker.metrics.family import Collector, Family, gauge
from minikafka.controller.metadata.image import NO_LEADER, Image, Topic

__all__ = ["QuorumState", "controller_metrics", "quorum_metrics"]

CONTROLLER = "kafka_controller_kafkacontroller"
TOPICS_AT_ONCE = 100


class QuorumState(NamedTuple):
    """The quorum of the metadata log, as this node knows it.

    Attributes:
        leader_id: The node that leads the quorum; -1 if unknown.
        applied_offset: Every record before it is applied on this node.
        committed_offset: Every record before it is committed, as far as this node knows.
    """

    leader_id: int
    leader_epoch: int
    applied_offset: int
    committed_offset: int


def controller_metrics(image: Callable[[], Image], is_active: Callable[[], bool]) -> Collector:
    """Make the collector of a controller's counts of brokers, topics and partitions.

    Every controller has this collector, not only the active one, as in Kafka.
    """

    def collect() -> Iterator[Family | None]:
        yield gauge(f"{CONTROLLER}_activecontrollercount", "1 on the active controller.", is_active())
        brokers = list(image().brokers.values())
        fenced = sum(broker.fenced for broker in brokers)
        yield gauge(f"{CONTROLLER}_activebrokercount", "Registered brokers that are not fenced.", len(brokers) - fenced)
        yield gauge(f"{CONTROLLER}_fencedbrokercount", "Registered brokers that are fenced.", fenced)
        topics = list(image().topics.values())
        partitions = offline = imbalanced = 0
        for number, topic in enumerate(topics):
            if number % TOPICS_AT_ONCE == 0:
                yield None
            partitions += len(topic.partitions)
            offline += sum(one.leader == NO_LEADER for one in topic.partitions)
            imbalanced += _imbalanced(topic)
        yield gauge(f"{CONTROLLER}_globaltopiccount", "Topics of the cluster.", len(topics))
        yield gauge(f"{CONTROLLER}_globalpartitioncount", "Partitions of the cluster.", partitions)
        yield gauge(f"{CONTROLLER}_offlinepartitionscount", "Partitions without a leader.", offline)
        yield gauge(
            f"{CONTROLLER}_preferredreplicaimbalancecount",
            "Partitions that another replica than the preferred one leads.",
            imbalanced,
        )

    return collect


def _imbalanced(topic: Topic) -> int:
    return sum(bool(one.replicas) and one.leader != one.replicas[0] for one in topic.partitions)


def quorum_metrics(state: Callable[[], QuorumState]) -> Collector:
    """Make the collector of the quorum's metrics, and of this node's progress in the metadata log."""

    def collect() -> Iterator[Family | None]:
        now = state()
        yield gauge("kafka_server_raft_metrics_current_leader", "The node that leads the quorum.", now.leader_id)
        yield gauge("kafka_server_raft_metrics_current_epoch", "The leader epoch of the quorum.", now.leader_epoch)
        yield gauge(
            "kafka_server_raft_metrics_high_watermark",
            "The offset below which this node knows the metadata log to be committed.",
            now.committed_offset,
        )
        yield gauge(
            "kafka_server_broker_metadata_metrics_last_applied_record_offset",
            "The last record of the metadata log that this node has applied.",
            now.applied_offset - 1,
        )
        yield gauge(
            "minikafka_metadata_lag",
            "Committed records of the metadata log that this node has not applied.",
            max(0, now.committed_offset - now.applied_offset),
        )

    return collect
