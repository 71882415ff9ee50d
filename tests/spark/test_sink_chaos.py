"""The streaming sink while its driver, executors, Python workers and brokers are killed: `make spark-chaos`.

Three brokers; real Spark copies a topic to another. Some tasks are slow in their transaction, so that Spark starts
speculative attempts of them, which its event log has. At the end each record is there, with `exactly_once` and `atomic`
once, no transaction is open, and `at_least_once` has doubled some, by which the test is seen to notice it. While it
runs, a reader takes snapshots: with `atomic`, none has a part of a micro-batch that remains a part. Each run of the
tests has a short round of it: a few micro-batches, and the Python workers are killed in the first.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.bank.ledger import read_ledger
from support.clusters import heal, make
from support.ended_transactions import left_open
from support.logins import Login
from support.oracle import java
from support.spark_audit import MicroBatchAudit, SinkAuditor, rows_of, value_of
from support.spark_cluster import EXECUTORS, speculative_attempts
from support.spark_driver import WORKERS, SparkDriver

from minikafka.cli.local_cluster import LocalCluster
from minikafka.spark_connector.brokers.offset_reader import TRANSACTION, OffsetReader
from minikafka.spark_connector.options.source_options import KafkaOptions

BATCHES = int(os.environ.get("MINIKAFKA_SPARK_CHAOS", "0"))
SEED = int(os.environ.get("MINIKAFKA_SPARK_CHAOS_SEED", "1"))
PARTITIONS = 3
ROWS_A_ROUND = 480 if BATCHES else 180
BATCHES_A_ROUND = 8
KINDS = ("driver", "workers", "executors", "broker", "coordinator", "broker and driver")
PATIENCE_S = 300
SETTINGS = {
    "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2", "min.insync.replicas": "2", "broker.session.timeout.ms": "5000",
}  # fmt: skip
REPLICATION = 3

pytestmark = [
    pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 + 30 * BATCHES),
    pytest.mark.skipif(java() is None, reason="no Java"),
]  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with make(tmp_path_factory.mktemp("cluster"), brokers=3, settings=SETTINGS) as three:
        yield three


class Source:
    """Fills the source topic: the value of each record is its partition and offset."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.rows: set[tuple[int, int]] = set()
        self._topic = topic
        config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "message.timeout.ms": PATIENCE_S * 1000}
        self._producer = confluent_kafka.Producer(config)

    def send(self) -> None:
        for number in range(len(self.rows), len(self.rows) + ROWS_A_ROUND):
            row = number % PARTITIONS, number // PARTITIONS
            self._producer.produce(self._topic, value_of(row), partition=row[0])
            self.rows.add(row)
        assert self._producer.flush(PATIENCE_S) == 0


class Faults:
    """What is killed in each round, by a seed: each kind in turn, in another order each time."""

    def __init__(self, cluster: LocalCluster, driver: SparkDriver, checkpoint: Path, random: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._driver = driver
        self._checkpoint = checkpoint
        self._random = random
        self._down: list[int] = []
        self._next: list[str] = []

    def strike(self) -> None:
        if self._down:
            self._cluster.start(*self._down)
            self._down.clear()
        if not self._next:
            self._next = self._random.sample(KINDS, len(KINDS))
        name = self._next.pop()
        self.counts[name] += 1
        time.sleep(self._random.random())  # somewhere in a micro-batch
        if "broker" in name or name == "coordinator":
            self._cluster.wait_in_sync()
            chosen = self._random.choice(self._cluster.node_ids)
            self._down.append(self._coordinator() if name == "coordinator" else chosen)
            self._cluster.kill(*self._down)
        if "driver" in name:
            self._driver.kill()
            self._driver.start()
        if name == "workers":
            self._driver.kill_processes(*WORKERS)
        if name == "executors":
            self._driver.kill_processes(*EXECUTORS)

    def _coordinator(self) -> int:
        """The node that coordinates the transactions of the first task."""
        query = json.loads((self._checkpoint / "metadata").read_text())["id"]
        brokers = OffsetReader(KafkaOptions(self._cluster.bootstrap))
        try:
            first = f"minikafka-spark-{query}-0"
            return brokers.retry(lambda: brokers.coordinator(first, TRANSACTION), "finding the coordinator")
        finally:
            brokers.close()


class Copying:
    """A driver that copies one topic to another, and what must be there at the end."""

    def __init__(self, cluster: LocalCluster, folder: Path, delivery: str) -> None:
        pytest.importorskip("pyspark")
        heal(cluster)
        self.cluster, self.folder, self.delivery = cluster, folder, delivery
        names = [f"in-{delivery}", self.target] if BATCHES else [f"in-short-{delivery}", self.target]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for made in admin.create_topics([NewTopic(one, PARTITIONS, REPLICATION) for one in names]).values():
            made.result(PATIENCE_S)
        self.source, self.checkpoint = Source(cluster.bootstrap, names[0]), folder / "checkpoint"
        self.source.send()
        self.driver = SparkDriver(folder, "support.spark_copier", cluster.bootstrap, *names, delivery)

    @property
    def target(self) -> str:
        return f"out-{self.delivery}" if BATCHES else f"out-short-{self.delivery}"

    def committed(self) -> int:
        """Spark keeps the files of the last hundred micro-batches (`spark.sql.streaming.minBatchesToRetain`)."""
        return max((int(one.name) + 1 for one in (self.checkpoint / "commits").glob("[0-9]*")), default=0)

    def read(self, isolation: str = "read_committed") -> Counter[tuple[int, int]]:
        return rows_of(read_ledger(Login.of(self.cluster.bootstrap), self.target, PARTITIONS, isolation))

    def finish(self) -> None:
        """Waits for all records."""
        heal(self.cluster)
        self.driver.wait_for(lambda: self.source.rows <= self.read().keys(), "for all records")

    def check(self) -> int:
        """Checks that everything is there, and if it must be, once; returns how often a record is doubled."""
        found = self.read()
        doubled = sum(found.values()) - len(found)
        assert found.keys() == self.source.rows
        if self.delivery != "at_least_once":
            assert doubled == 0
            assert left_open(self.cluster.bootstrap, [self.target, "__consumer_offsets"], PATIENCE_S) == []
        return doubled


@pytest.mark.skipif(not BATCHES, reason="make spark-chaos")
@pytest.mark.parametrize("delivery", ["exactly_once", "atomic", "at_least_once"])
def test_records_are_delivered_under_chaos(cluster: LocalCluster, tmp_path: Path, delivery: str) -> None:
    copying = Copying(cluster, tmp_path, delivery)
    driver, committed = copying.driver, copying.committed
    audit = MicroBatchAudit(copying.checkpoint, once=delivery != "at_least_once", whole=delivery == "atomic")
    faults = Faults(cluster, driver, copying.checkpoint, Random(SEED))
    try:
        with SinkAuditor(Login.of(cluster.bootstrap), copying.target, PARTITIONS, audit) as auditor:
            while committed() < BATCHES:
                copying.source.send()
                wanted = committed() + BATCHES_A_ROUND
                driver.wait_for(lambda wanted=wanted: committed() >= wanted or auditor.failed, f"for batch {wanted}")
                assert not auditor.failed
                faults.strike()
            copying.finish()
    finally:
        driver.kill()
    doubled = copying.check()
    speculative = speculative_attempts(tmp_path)
    print(f"\n{delivery}: {committed()} micro-batches, {len(copying.source.rows)} records, {doubled} doubled,"
          f" {audit.snapshots} snapshots, kills: {dict(faults.counts)},"
          f" speculative attempts: {dict(speculative)}")  # fmt: skip
    assert speculative["started"], "no task was speculated: the run does not show what it is for"
    if delivery == "at_least_once":
        assert doubled, "no fault has hit the middle of a micro-batch: the run shows nothing"


@pytest.mark.skipif(bool(BATCHES), reason="make spark-chaos has more of it")
@pytest.mark.parametrize("delivery", ["exactly_once"])
def test_a_few_micro_batches_of_which_the_workers_are_killed(
    cluster: LocalCluster, tmp_path: Path, delivery: str
) -> None:
    """They are killed when the first rows are sent: one task of the first micro-batch is slow then."""
    copying = Copying(cluster, tmp_path, delivery)
    try:
        copying.driver.wait_for(lambda: bool(copying.read("read_uncommitted")), "for the first rows")
        assert copying.driver.kill_processes(*WORKERS) > 0
        copying.finish()
    finally:
        copying.driver.kill()
    copying.check()
    assert copying.committed() > 1
