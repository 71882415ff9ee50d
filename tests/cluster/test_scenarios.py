"""The failure stories of a Kafka course, told in `docs/scenarios/`, on real processes with confluent-kafka.

Times are printed (`pytest -s`), not asserted, since they depend on the load of the machine.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import confluent_kafka as ck
import pytest
from chaos.nemesis import DISKS
from support.clients import eventually
from support.cluster_load import load, read_back, wrongs
from support.clusters import ON_KAFKA, Topic, check_nobody_crashed
from support.faulty_cluster import FaultyCluster

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for page in (ROOT / "docs" / "scenarios").glob("*.md") if page.name != "README.md")
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
TIMEOUT_S = 60
ORDERS = 300


def test_the_flash_sale_whose_leader_dies_at_2_am(three: LocalCluster, name: str) -> None:
    topic = Topic(three, name, REPLICAS)
    with load("confluent-kafka", three.bootstrap, name) as orders:
        leader, moment = topic.leader(0), orders.now()
        three.kill(leader)
        orders.wait_acknowledged(100, partition=0)
        print(f"\nno order of partition 0 was acknowledged for {orders.gap_s(0, moment):.2f} s")
    assert wrongs(orders, read_back(three.bootstrap, name)) == []
    three.start(leader)
    topic.until_in_sync(1, 2, 3)


class Storm:
    """Members of a group that come and go at once. Each reads a little, and some commit it.

    Attributes:
        processed: The values of the records.
        assignments: How often a member was told its partitions, perhaps none.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.processed: set[bytes] = set()
        self.assignments = 0
        self._settings = {
            "bootstrap.servers": bootstrap, "group.id": topic, "auto.offset.reset": "earliest", "log_level": 0,
            "enable.auto.commit": False, "session.timeout.ms": 6_000,
        }  # fmt: skip
        self._topic = topic

    def blow(self, members: int, lives: int) -> None:
        """So many members at a time, each of which joins and leaves so often."""
        with ThreadPoolExecutor(members) as threads:
            for coming in [threads.submit(self._come_and_go, lives) for _ in range(members)]:
                coming.result()

    def _come_and_go(self, lives: int) -> None:
        for life in range(lives):
            with self._member() as (member, assigned):
                while not assigned.is_set():
                    self._process(member, commits=False)
                self._process(member, commits=life % 2 == 0)

    def settle(self, records: int) -> None:
        """One member stays, until all records are processed and committed."""
        with self._member() as (member, _):
            eventually(partial(self._is_done, member, records), timeout_s=TIMEOUT_S)

    def _is_done(self, member: ck.Consumer, records: int) -> bool:
        self._process(member, commits=True)
        places = [ck.TopicPartition(self._topic, index) for index in range(len(REPLICAS))]
        committed = sum(max(one.offset, 0) for one in member.committed(places, TIMEOUT_S))
        return len(self.processed) == records == committed

    @contextmanager
    def _member(self) -> Iterator[tuple[ck.Consumer, threading.Event]]:
        """A member, and whether it has ever been told its partitions. It leaves the group at the end."""
        member, assigned = ck.Consumer(self._settings), threading.Event()

        def on_assign(*_: object) -> None:
            self.assignments += 1
            assigned.set()

        member.subscribe([self._topic], on_assign=on_assign)
        try:
            yield member, assigned
        finally:
            member.close()

    def _process(self, member: ck.Consumer, *, commits: bool) -> None:
        messages = [one for one in member.consume(20, 0.2) if one.error() is None]
        self.processed |= {one.value() for one in messages}
        if messages and commits:
            try:
                member.commit(asynchronous=False)
            except ck.KafkaException as error:
                if error.args[0].code() not in STORMY:  # the partitions are somebody else's by now
                    raise


STORMY = (
    ck.KafkaError.ILLEGAL_GENERATION, ck.KafkaError.UNKNOWN_MEMBER_ID, ck.KafkaError.REBALANCE_IN_PROGRESS,
    ck.KafkaError._NO_OFFSET, ck.KafkaError._ASSIGNMENT_LOST, ck.KafkaError.NOT_COORDINATOR,
)  # fmt: skip


def test_the_rebalance_storm(three: LocalCluster, name: str) -> None:
    Topic(three, name, REPLICAS)
    producer = ck.Producer({"bootstrap.servers": three.bootstrap, "log_level": 0})
    for number in range(ORDERS):
        producer.produce(name, b"%d" % number, partition=number % len(REPLICAS))
    assert producer.flush(TIMEOUT_S) == 0
    storm = Storm(three.bootstrap, name)
    storm.blow(members=4, lives=2)
    assert storm.assignments >= 8
    storm.settle(ORDERS)
    assert storm.processed == {b"%d" % number for number in range(ORDERS)}
    with Admin(three.bootstrap) as admin:
        committed = admin.list_group_offsets(name)
        assert {tp.partition: one.offset for tp, one in committed.items()} == dict.fromkeys(range(3), ORDERS // 3)


def transactional(bootstrap: str, name: str) -> ck.Producer:
    """A producer that has fenced its predecessors of the same name."""
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(TIMEOUT_S)
    return producer


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """What a read_committed consumer finds in partition 0, up to its end."""
    settings = {"group.id": "unused", "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0}
    reading = {"bootstrap.servers": bootstrap, "isolation.level": "read_committed", "enable.partition.eof": True}
    consumer = ck.Consumer({**settings, **reading})
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"nothing after {values}"
        if message.error():
            assert message.error().code() == ck.KafkaError._PARTITION_EOF, message.error()
            break
        values.append(message.value())
    consumer.close()
    return values


def test_the_zombie_producer(three: LocalCluster, name: str) -> None:
    topic = Topic(three, name)
    zombie = transactional(three.bootstrap, name)
    zombie.begin_transaction()
    zombie.produce(name, b"by the zombie", partition=0)
    assert zombie.flush(TIMEOUT_S) == 0
    successor = transactional(three.bootstrap, name)
    leader = topic.leader()
    three.kill(leader)  # who knew the zombie's epoch; the next leader must know it too
    topic.until_led_by(*(node_id for node_id in three.broker_ids if node_id != leader))
    successor.begin_transaction()
    successor.produce(name, b"by its successor", partition=0)
    successor.commit_transaction(TIMEOUT_S)
    with pytest.raises(ck.KafkaException) as refused:
        zombie.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].fatal(), refused.value
    assert committed_values(three.bootstrap, name) == [b"by its successor"]
    three.start(leader)
    topic.until_in_sync(1, 2, 3)


@pytest.fixture
def small_disks(tmp_path: Path) -> Iterator[FaultyCluster]:
    with FaultyCluster(tmp_path / "cluster", settings={"broker.session.timeout.ms": "5000"}) as cluster:
        if DISKS in cluster.cannot:
            pytest.skip(cluster.cannot[DISKS])
        yield cluster


@pytest.mark.skipif(ON_KAFKA, reason="Apache Kafka ends when its only disk is full")
def test_the_full_disk(small_disks: FaultyCluster, name: str) -> None:
    topic = Topic(small_disks, name, REPLICAS)
    with load("minikafka", small_disks.bootstrap, name) as ledger:
        leader, moment = topic.leader(0), ledger.now()
        small_disks.fill_disk(leader)
        topic.until(lambda: topic.leader(0) not in (leader, -1))
        ledger.wait_acknowledged(100, partition=0)
        print(f"\nno record of partition 0 was acknowledged for {ledger.gap_s(0, moment):.2f} s")
        small_disks.empty_disk(leader)
        topic.until_in_sync(1, 2, 3)
        ledger.wait_acknowledged(100)
    assert wrongs(ledger, read_back(small_disks.bootstrap, name)) == []
    check_nobody_crashed(small_disks)
    assert small_disks.running(leader)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_page_names_tests_that_exist(page: Path) -> None:
    named = re.findall(r"(tests/[\w/]+\.py)::(test_\w+)", page.read_text())
    assert named
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(), f"{path}::{test}"
    assert page.name in (page.parent / "README.md").read_text()
