"""MetadataFollower: metadata records create, change and remove replicas; stray logs are deleted."""

import errno
from random import Random

import pytest
import structlog.testing
from support.logs import append

from minikafka.broker.partitions.partition import Partition
from minikafka.broker.partitions.partition_lifecycle import MetadataFollower, ReplicaEvents
from minikafka.broker.partitions.partition_table import Partitions
from minikafka.broker.partitions.replica_logs import ReplicaLogs
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import (
    ConfigRecord,
    PartitionChange,
    PartitionRecord,
    Record,
    RemoveTopic,
    TopicRecord,
)
from minikafka.protocol.names import TopicPartition
from minikafka.storage import LogConfig, LogManager, MemoryDisk
from minikafka.storage.disks.checkpoint_files import read_topic_id
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once

NODE = 1
FIRST, SECOND = b"f" * 16, b"s" * 16


class Cluster:
    """An image, a follower of it, and a disk that outlives both."""

    def __init__(
        self, disk: MemoryDisk | None = None, records: list[Record] | None = None, *, started: bool = True
    ) -> None:
        self.disk = disk or MemoryDisk()
        self.image = Image()
        self.max_bytes: dict[str, int] = {}
        self.led: list[str] = []
        self.gone: list[TopicPartition] = []
        self.logs = LogManager(LogContext(self.disk, lambda: 0, Random(1)), ["/data"], config_of=self.config)
        self.logs.load()
        self.partitions = Partitions(self.image)
        replica_logs = ReplicaLogs(NODE, self.image, self.logs, self.config)
        events = ReplicaEvents(elected=self.lead, deleted=self.gone.extend)
        self.follower = MetadataFollower(NODE, self.image, replica_logs, self.partitions, events)
        for record in records or []:
            self.image.apply(record)
        if started:
            at_once(self.follower.start())

    def config(self, topic: str) -> LogConfig:
        return LogConfig(max_message_bytes=self.max_bytes.get(topic, 1000), file_delete_delay_ms=0)

    def lead(self, partition: Partition) -> None:
        self.led.append(str(partition))

    def commit(self, *records: Record) -> None:
        for record in records:
            self.image.apply(record)
        at_once(self.follower.apply(records))

    def served(self) -> list[str]:
        return sorted(str(partition) for partition in self.partitions)


def topic(topic_id: bytes, name: str, *replicas: int) -> list[Record]:
    """A topic with one partition for each leader given."""
    placed = [PartitionRecord(topic_id, index, (node,), (node,), node) for index, node in enumerate(replicas)]
    return [TopicRecord(topic_id, name), *placed]


def test_a_topic_is_served_as_soon_as_its_records_are_applied() -> None:
    cluster = Cluster()
    cluster.commit(*topic(FIRST, "t", NODE, NODE))
    assert cluster.served() == cluster.led == ["t-0", "t-1"]
    assert cluster.partitions.find("t", 1).is_leader


def test_other_tasks_run_between_the_replicas_of_a_batch_and_an_end_there_leaves_whole_replicas() -> None:
    cluster, records = Cluster(), topic(FIRST, "t", *[NODE] * 20)
    for record in records:
        cluster.image.apply(record)
    steps = cluster.follower.apply(records)
    next(steps)
    assert 0 < len(cluster.served()) <= 4
    steps.close()
    assert cluster.led == [f"t-{index}" for index in range(len(cluster.served()))]
    at_once(cluster.follower.apply(records))
    assert cluster.led == [f"t-{index}" for index in range(20)], "none is elected twice"


def test_a_node_that_stops_while_a_topic_is_deleted_leaves_none_of_its_logs() -> None:
    cluster = Cluster()
    cluster.commit(*topic(FIRST, "t", *[NODE] * 100))
    cluster.image.apply(RemoveTopic(FIRST))
    steps = cluster.follower.apply([RemoveTopic(FIRST)])
    next(steps)
    next(steps)
    assert 0 < len(cluster.served()) < 100
    steps.close()
    assert cluster.served() == []
    assert not any(cluster.disk.exists(f"/data/t-{index}") for index in range(100))


def test_a_topic_that_is_deleted_during_the_start_is_removed_and_not_a_stray() -> None:
    before = Cluster()
    before.commit(*topic(FIRST, "t", *[NODE] * 100), *topic(SECOND, "u", NODE))
    before.logs.close({})
    after = Cluster(before.disk, topic(FIRST, "t", *[NODE] * 100), started=False)
    steps = after.follower.start()
    next(steps)
    after.image.apply(RemoveTopic(FIRST))
    at_once(steps)
    at_once(after.follower.apply([RemoveTopic(FIRST)]))
    assert after.served() == []
    assert [name for name in after.disk.list("/data") if name.endswith("-stray")] == [
        name for name in after.disk.list("/data") if name.startswith("u-0.")
    ]


def test_partitions_of_other_nodes_are_not_created() -> None:
    cluster = Cluster()
    cluster.commit(*topic(FIRST, "t", NODE, 2))
    assert cluster.served() == ["t-0"]


def test_a_deleted_topic_is_removed_and_reported() -> None:
    cluster = Cluster()
    cluster.commit(*topic(FIRST, "t", NODE), *topic(SECOND, "u", NODE))
    partition = cluster.partitions.find("t", 0)
    cluster.commit(RemoveTopic(FIRST))
    assert cluster.served() == ["u-0"]
    assert cluster.gone == [TopicPartition("t", 0)]
    assert not partition.is_leader
    assert not cluster.disk.exists("/data/t-0")


def test_a_new_leader_epoch_reaches_the_partition() -> None:
    cluster = Cluster()
    cluster.commit(*topic(FIRST, "t", NODE))
    cluster.commit(PartitionChange(FIRST, 0, leader=NODE))
    assert cluster.partitions.find("t", 0).leader_epoch == 1
    assert cluster.led == ["t-0", "t-0"]


def test_settings_apply_to_served_partitions() -> None:
    cluster = Cluster()
    cluster.commit(*topic(FIRST, "t", NODE), *topic(SECOND, "u", NODE))
    cluster.max_bytes = {"t": 50, "u": 60}
    cluster.commit(ConfigRecord(2, "t", "max.message.bytes", "50"))
    assert [cluster.partitions.find(name, 0).rules.max_message_bytes for name in ("t", "u")] == [50, 1000]
    cluster.commit(ConfigRecord(4, "", "message.max.bytes", "60"))
    assert [cluster.partitions.find(name, 0).rules.max_message_bytes for name in ("t", "u")] == [50, 60]


def test_after_a_restart_the_same_partitions_are_served_and_stray_logs_deleted() -> None:
    before = Cluster()
    before.commit(*topic(FIRST, "t", NODE), *topic(SECOND, "u", NODE))
    before.logs.close({})
    after = Cluster(before.disk, topic(FIRST, "t", NODE))
    assert after.served() == ["t-0"]
    assert not after.disk.exists("/data/u-0")


def restart_without_topic_id(*, flushed: bool) -> Partition:
    """A topic has a record; the node loses power and `partition.metadata`, and the topic is made anew meanwhile."""
    return Cluster(without_topic_id(flushed=flushed), topic(SECOND, "t", NODE)).partitions.find("t", 0)


def without_topic_id(*, flushed: bool) -> MemoryDisk:
    before = Cluster()
    before.commit(*topic(FIRST, "t", NODE))
    log = before.partitions.find("t", 0).log
    append(log, b"of the first topic")
    if flushed:
        log.flush()
        before.logs.upkeep.write_checkpoints()
    before.disk.remove("/data/t-0/partition.metadata")
    before.disk.unlock_all()
    return before.disk


def test_records_that_were_never_flushed_and_have_no_topic_id_are_not_those_of_a_new_topic() -> None:
    """`make sim SEED=1424` found replicas that differ."""
    partition = restart_without_topic_id(flushed=False)
    assert (partition.log.topic_id, partition.log.end_offset) == (SECOND, 0)


def test_flushed_records_without_a_topic_id_are_kept_and_get_one() -> None:
    partition = restart_without_topic_id(flushed=True)
    assert (partition.log.topic_id, partition.log.end_offset) == (SECOND, 1)
    assert read_topic_id(partition.log.disk, "/data/t-0/partition.metadata") == SECOND


@pytest.mark.parametrize("call", ["open", "write", "rename"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.ENOMEM])
def test_a_log_that_cannot_be_served_now_is_no_stray(call: str, code: int) -> None:
    disk = without_topic_id(flushed=True)
    cluster = Cluster(disk, topic(SECOND, "t", NODE), started=False)
    disk.fail(call, path="partition.metadata", code=code, times=1 << 30)
    at_once(cluster.follower.start())
    assert cluster.served() == []
    disk.heal()
    at_once(cluster.follower.look_for_room())
    assert cluster.partitions.find("t", 0).log.end_offset == 1
    assert not [name for name in disk.list("/data") if name.endswith("-stray")]


def test_the_log_of_a_deleted_topic_is_not_served_for_a_new_one_of_the_same_name() -> None:
    """KAFKA-14616: deleted and created again while the node was down."""
    before = Cluster()
    before.commit(*topic(FIRST, "t", NODE))
    before.logs.close({})
    after = Cluster(before.disk, topic(SECOND, "t", NODE))
    partition = after.partitions.find("t", 0)
    assert (partition.topic_id, partition.log.topic_id) == (SECOND, SECOND)


def test_an_election_is_one_line_for_all_replicas_that_have_another_role() -> None:
    cluster = Cluster()
    with structlog.testing.capture_logs() as lines:
        new = [PartitionRecord(FIRST, index, (NODE, 2), (NODE, 2), 2) for index in range(30)]
        cluster.commit(TopicRecord(FIRST, "t"), *new)
        assert lines == [], "new replicas have no new role"
        cluster.commit(*(PartitionChange(FIRST, index, leader=NODE) for index in range(29)))
        cluster.commit(*(PartitionChange(FIRST, index, leader=NODE) for index in range(29)))
        cluster.commit(PartitionChange(FIRST, 3, leader=2), PartitionChange(FIRST, 29, leader=NODE))
    assert [(line["event"], line["leads"], line["follows"]) for line in lines] == [
        ("replica roles changed", 29, 0),
        ("replica roles changed", 1, 1),
    ]
    assert lines[0]["first_led"] == [f"t-{index}" for index in range(10)]
    assert (lines[1]["first_led"], lines[1]["first_followed"]) == (["t-29"], ["t-3"])
