"""A bug while a node applies committed metadata is logged and counted; everything else is applied."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from support.quorum import Controllers, register
from support.quorum import run as run_cluster

from minikafka.broker.metrics.process_metrics import failure_metrics
from minikafka.broker.partitions.partition_lifecycle import MetadataFollower
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.replica_logs import ReplicaLogs
from minikafka.controller.failures import FAILURES
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import (
    BrokerChange,
    BrokerRecord,
    ConfigRecord,
    PartitionChange,
    PartitionRecord,
    Record,
    RemoveTopic,
    TopicRecord,
)
from minikafka.controller.metadata.subscribers import notify
from minikafka.protocol.errors import KafkaStorageError
from minikafka.storage import LogConfig, LogManager, MemoryDisk
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once

NODE, FIRST, SECOND = 1, b"f" * 16, b"s" * 16
BROKER = BrokerRecord(node_id=NODE, epoch=1, incarnation_id=b"i" * 16, endpoints=(), rack=None, fenced=False)
PARTS = {
    "_take_role": PartitionChange(FIRST, 0, leader=NODE),
    "_remove_topic": RemoveTopic(FIRST),
    "_configure": ConfigRecord(2, "first", "max.message.bytes", "2000"),
    "_check_isr": BrokerChange(NODE, 1),
}


def partition(topic_id: bytes, index: int = 0) -> PartitionRecord:
    return PartitionRecord(topic_id, index, (NODE,), (NODE,), NODE)


@pytest.mark.parametrize("part", PARTS)
def test_a_record_that_meets_a_bug_keeps_no_other_from_being_applied(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = Image()
    for record in (BROKER, TopicRecord(FIRST, "first"), partition(FIRST)):
        image.apply(record)
    logs = LogManager(LogContext(MemoryDisk(), lambda: 0, Random(1)), ["/data"], config_of=lambda _: LogConfig())
    logs.load()
    partitions = Partitions(image)
    replica_logs = ReplicaLogs(NODE, image, logs, lambda _: LogConfig())
    follower = MetadataFollower(NODE, image, replica_logs, partitions)
    at_once(follower.start())
    good, left = getattr(follower, part), [1]

    def broken(*args: Any, **given: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise KeyError("a bug")
        return good(*args, **given)

    monkeypatch.setattr(follower, part, broken)
    records = [PARTS[part], TopicRecord(SECOND, "second"), partition(SECOND), partition(SECOND, 1)]
    for record in records:
        image.apply(record)
    before = FAILURES["metadata"]
    with capture_logs() as lines:
        at_once(follower.apply(records))
    assert [line["record"] for line in lines if line["event"] == "metadata not applied" and line["exc_info"]] == [
        type(PARTS[part]).__name__
    ]
    assert FAILURES["metadata"] == before + 1
    assert partitions.get("second", 0) is not None
    assert partitions.get("second", 1) is not None
    families = {one.name: one for one in failure_metrics()() if one is not None}
    counted = families["kafka_server_broker_metadata_metrics_metadata_apply_error_count"].samples
    assert counted == [((), float(before + 1))]


def test_a_subscriber_that_meets_a_bug_ends_neither_the_others_nor_a_cluster() -> None:
    told = list[int]()

    async def broken(records: Sequence[Record]) -> None:
        raise KeyError("a bug")

    async def good(records: Sequence[Record]) -> None:
        told.append(len(records))

    async def scenario(cluster: Controllers) -> None:
        await cluster.start(1, 2, 3)
        leader = await cluster.leader()
        for node_id in (1, 2, 3):
            cluster[node_id].subscribe(broken)
            cluster[node_id].subscribe(good)
        await register(leader.controller, leader.node_id)
        await cluster.agree()
        assert len(told) >= 3
        assert not any(one.ended.is_set() for one in cluster.running.values())

    with capture_logs() as lines:
        run_cluster(scenario)
    assert {line["event"] for line in lines if line["log_level"] == "error"} <= {"metadata not applied"}


@pytest.mark.parametrize("error", [WrongDirectory("other"), KafkaStorageError("full"), OSError("gone")])
def test_what_a_node_must_stop_for_is_raised(error: Exception) -> None:
    async def refusing(records: Sequence[Record]) -> None:
        raise error

    with pytest.raises(type(error)):
        trio.run(notify, [refusing], [])
