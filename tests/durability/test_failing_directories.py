"""Real nodes whose data directories fail or are missing, with records that confluent-kafka had acknowledged.

A directory fails as it is replaced by a file, which needs no privileges: what is open goes on, and nothing else works.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest
from support.clients import eventually
from support.clients_raw import RawConnection
from support.node import NodeProcess, StartError

from minikafka.cli.local_cluster import LocalCluster
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.describe_log_dirs import DescribeLogDirsRequest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
COUNT = 500
SETTINGS = {
    "min.insync.replicas": "2",
    "auto.leader.rebalance.enable": "false",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}


class Directories:
    """The data directories of three nodes, and which of them is broken."""

    def __init__(self, base: Path) -> None:
        self.base = base

    def path(self, node_id: int, name: str) -> Path:
        return self.base / f"{node_id}-{name}"

    def settings(self, node_id: int) -> dict[str, str]:
        return {
            "log.dirs": f"{self.path(node_id, 'a')},{self.path(node_id, 'b')}",
            "metadata.log.dir": str(self.path(node_id, "metadata")),
        }

    def home(self, node_id: int, topic: str) -> Path:
        """The directory that has a node's replica."""
        (found,) = [path for name in "ab" if ((path := self.path(node_id, name)) / f"{topic}-0").is_dir()]
        return found


def fail(directory: Path) -> None:
    directory.rename(directory.with_suffix(".away"))
    directory.write_text("not a directory")


def mend(directory: Path) -> None:
    directory.unlink()
    directory.with_suffix(".away").rename(directory)


@pytest.fixture
def directories(tmp_path: Path) -> Directories:
    return Directories(tmp_path)


@pytest.fixture
def three(directories: Directories, tmp_path: Path) -> Iterator[LocalCluster]:
    of_nodes = {node_id: directories.settings(node_id) for node_id in (1, 2, 3)}
    with LocalCluster(tmp_path / "cluster", brokers=3, settings=SETTINGS, node_settings=of_nodes) as cluster:
        yield cluster


def create(bootstrap: str, topic: str, replicas: int) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    new = confluent_kafka.admin.NewTopic(topic, 1, replicas)
    admin.create_topics([new])[topic].result(30)


def produce(bootstrap: str, topic: str, first: int, end: int) -> None:
    """Records whose values are numbers, all acknowledged by all in-sync replicas."""
    failed: list[object] = []
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(first, end):
        producer.produce(topic, str(number).encode(), callback=lambda error, _: failed.append(error) if error else None)
    assert producer.flush(60) == 0
    assert failed == []


def read(bootstrap: str, topic: str, count: int) -> list[int]:
    """The values of a topic, at least `count`."""
    group = {"group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, **group})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values: list[int] = []

    def enough() -> bool:
        values.extend(int(message.value()) for message in consumer.consume(1000, 0.5) if not message.error())
        return len(values) >= count

    eventually(enough, timeout_s=60)
    consumer.close()
    return values


def state(bootstrap: str, topic: str) -> tuple[int, list[int]]:
    """Leader and in-sync replicas."""
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": bootstrap})
    partition = admin.list_topics(topic, timeout=30).topics[topic].partitions[0]
    return partition.leader, sorted(partition.isrs)


def test_a_leader_whose_directory_fails_is_replaced_and_the_node_goes_on(
    three: LocalCluster, directories: Directories
) -> None:
    create(three.bootstrap, "t", 3)
    produce(three.bootstrap, "t", 0, COUNT)
    eventually(lambda: state(three.bootstrap, "t")[1] == [1, 2, 3], timeout_s=60)
    leader = state(three.bootstrap, "t")[0]
    failed = directories.home(leader, "t")
    fail(failed)
    produce(three.bootstrap, "t", COUNT, 2 * COUNT)  # a high watermark that moves is written to the directory
    eventually(lambda: leader not in state(three.bootstrap, "t")[1], timeout_s=30)
    assert state(three.bootstrap, "t")[0] in {1, 2, 3} - {leader}
    assert three.running(leader)
    create(three.bootstrap, "u", 3)
    produce(three.bootstrap, "u", 0, 10)
    with RawConnection(_address(three, leader)) as connection:
        results = connection.ask(DescribeLogDirsRequest(topics=None), 4).results
    codes = {result.log_dir: ErrorCode(result.error_code) for result in results}
    assert codes.pop(str(failed)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert [*codes.values()] == [ErrorCode.NONE]
    three.stop(leader)
    mend(failed)
    three.start(leader)
    eventually(lambda: state(three.bootstrap, "t")[1] == [1, 2, 3], timeout_s=60)
    assert read(three.bootstrap, "t", 2 * COUNT) == [*range(2 * COUNT)]


def test_a_directory_that_fails_at_start_costs_no_acknowledged_record(
    three: LocalCluster, directories: Directories
) -> None:
    create(three.bootstrap, "t", 3)
    produce(three.bootstrap, "t", 0, COUNT)
    eventually(lambda: state(three.bootstrap, "t")[1] == [1, 2, 3], timeout_s=60)
    leader = state(three.bootstrap, "t")[0]
    others = [node_id for node_id in (1, 2, 3) if node_id != leader]
    failed = directories.home(leader, "t")
    three.stop(leader)
    fail(failed)
    three.start(leader)
    three.restart(*others)
    eventually(lambda: state(three.bootstrap, "t")[1] == others, timeout_s=60)
    assert not list(directories.base.glob(f"{leader}-[ab]/t-0")), "no log is made anew"
    assert read(three.bootstrap, "t", COUNT) == [*range(COUNT)]
    three.stop(leader)
    mend(failed)
    three.start(leader)
    eventually(lambda: state(three.bootstrap, "t")[1] == [1, 2, 3], timeout_s=60)
    assert read(three.bootstrap, "t", COUNT) == [*range(COUNT)]


def test_a_voter_with_an_empty_metadata_directory_refuses_to_start(
    three: LocalCluster, directories: Directories
) -> None:
    create(three.bootstrap, "t", 3)
    produce(three.bootstrap, "t", 0, COUNT)
    three.stop(1)
    metadata = directories.path(1, "metadata")
    metadata.rename(metadata.with_suffix(".away"))
    metadata.mkdir()
    three.launch(1)
    eventually(lambda: not three.running(1), timeout_s=60)
    assert f"{metadata} has no metadata log" in three.log_tail(1)
    metadata.rmdir()
    metadata.with_suffix(".away").rename(metadata)
    three.start(1)
    eventually(lambda: state(three.bootstrap, "t")[1] == [1, 2, 3], timeout_s=60)
    assert read(three.bootstrap, "t", COUNT) == [*range(COUNT)]


def test_a_lone_node_with_an_empty_metadata_directory_refuses_to_start_and_deletes_nothing(
    directories: Directories, tmp_path: Path
) -> None:
    metadata = directories.path(1, "metadata")
    with NodeProcess(tmp_path / "node", settings=directories.settings(1)) as node:
        create(node.bootstrap, "t", 1)
        produce(node.bootstrap, "t", 0, COUNT)
        assert node.terminate() == 0
        metadata.rename(metadata.with_suffix(".away"))
        with pytest.raises(StartError):
            node.start()
        assert f"{metadata} has no metadata log" in node.log_tail()
        if metadata.exists():
            metadata.rmdir()
        metadata.with_suffix(".away").rename(metadata)
        node.start()
        assert read(node.bootstrap, "t", COUNT) == [*range(COUNT)]
        assert node.terminate() == 0
        metadata.rename(metadata.with_suffix(".away"))
        for name in "ab":
            (directories.path(1, name) / "meta.properties").unlink()
        node.start()
        (stray,) = directories.base.glob("1-[ab]/t-0.*-stray")
        assert (stray / "00000000000000000000.log").stat().st_size > COUNT
        create(node.bootstrap, "t", 1)


def test_a_node_stops_when_its_last_directory_fails(tmp_path: Path, directories: Directories) -> None:
    with NodeProcess(tmp_path / "node", settings={**directories.settings(1), **SETTINGS}) as node:
        create(node.bootstrap, "t", 1)
        create(node.bootstrap, "u", 1)
        for name in "ab":
            fail(directories.path(1, name))
        eventually(lambda: not node.running, timeout_s=60)
        assert "all its data directories have failed" in node.log_tail()


def _address(cluster: LocalCluster, node_id: int) -> tuple[str, int]:
    host, _, port = cluster.address(node_id).rpartition(":")
    return host, int(port)
