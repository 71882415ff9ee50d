"""Images of small clusters, and decisions made about them, for tests of the controller."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from minikafka.controller.decisions.bootstrap_records import bootstrap
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.records import BrokerRecord, PartitionRecord, Record, TopicRecord
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.error_codes import ErrorCode

CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def static(node_id: int = 1, **given: str) -> StaticSettings:
    """Static settings; names are written with underscores for dots."""
    texts = {name.replace("_", "."): text for name, text in given.items()}
    return StaticSettings(node_id, {"node.id": str(node_id), "broker.id": str(node_id), **texts})


def broker(node_id: int, *, rack: str | None = None, fenced: bool = False, epoch: int = 0) -> BrokerRecord:
    """A registration."""
    endpoints = (("PLAINTEXT", "localhost", 9091 + node_id, "PLAINTEXT"),)
    return BrokerRecord(node_id, epoch, bytes(16), endpoints, rack, fenced)


def applied(records: Iterable[Record], image: Image | None = None) -> Image:
    """Apply records to an image; returns it."""
    image = Image() if image is None else image
    for record in records:
        image.apply(record)
    return image


def cluster(*brokers: BrokerRecord) -> Image:
    """A new cluster with these brokers, by default broker 1."""
    return applied([*bootstrap(CLUSTER_ID, static()), *(brokers or (broker(1),))])


def three_brokers() -> Image:
    """A new cluster with brokers 1, 2 and 3."""
    return cluster(broker(1), broker(2), broker(3))


def state(image: Image, name: str = "t", index: int = 0) -> PartitionState:
    """The state of a partition."""
    return image.topics[name].partitions[index]


def topic_id(name: str) -> bytes:
    """An id that only depends on the name."""
    return Random(name).randbytes(16)


def with_topic(image: Image, name: str, *replicas: tuple[int, ...], isr: tuple[int, ...] | None = None) -> Image:
    """The image with one more topic: a tuple of replicas for each partition."""
    records: list[Record] = [TopicRecord(topic_id(name), name)]
    for index, broker_ids in enumerate(replicas):
        in_sync = broker_ids if isr is None else isr
        records.append(PartitionRecord(topic_id(name), index, broker_ids, in_sync, in_sync[0]))
    return applied(records, image)


def context(version: int = 7, seed: int = 0, node: StaticSettings | None = None) -> Context:
    """The context of a decision."""
    levels = {"root": "INFO", "minikafka": "INFO"}
    return Context(node or static(), Random(seed), version, levels)


def decided(decide: Callable[[Image, Any, Context], Decision[Any]], image: Image, request: Any, **known: Any) -> Any:
    """Make a decision, apply its records to the image, return the reply."""
    decision = decide(image, request, context(**known))
    applied(decision.records, image)
    return decision.reply


def name_of(code: int) -> str:
    """An error's name, "NONE" for none."""
    return ErrorCode(code).name
