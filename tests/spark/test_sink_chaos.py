"""The streaming sink while its driver, Python workers and brokers are killed: `make spark-chaos`.

Three brokers; real Spark copies a topic to another. At the end each record is there, with `exactly_once` and `atomic`
once, no transaction is open, and `at_least_once` has doubled some, by which the test is seen to notice it. While it
runs, a reader takes snapshots: with `atomic`, none has a part of a micro-batch that remains a part.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from support.bank.ledger import read_ledger
from support.clusters import heal, make
from support.oracle import java
from support.spark_audit import MicroBatchAudit, SinkAuditor, rows_of, value_of
from support.spark_driver import WORKERS, SparkDriver

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin

BATCHES = int(os.environ.get("MINIKAFKA_SPARK_CHAOS", "0"))
SEED = int(os.environ.get("MINIKAFKA_SPARK_CHAOS_SEED", "1"))
PARTITIONS = 3
ROWS_A_ROUND = 480
BATCHES_A_ROUND = 6
PATIENCE_S = 300
SETTINGS = {
    "offsets.topic.replication.factor": "3", "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2", "min.insync.replicas": "2", "broker.session.timeout.ms": "5000",
}  # fmt: skip
REPLICATION = 3

pytestmark = [
    pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600 + 30 * BATCHES),
    pytest.mark.skipif(not BATCHES, reason="make spark-chaos"),
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
    """What is killed in each round, by a seed: the driver in every second round."""

    def __init__(self, cluster: LocalCluster, driver: SparkDriver, random: Random) -> None:
        self.counts: dict[str, int] = {}
        self._cluster = cluster
        self._driver = driver
        self._random = random
        self._down: list[int] = []

    def strike(self) -> None:
        if self._down:
            self._cluster.start(*self._down)
            self._down.clear()
        name = self._random.choice(("driver", "driver", "workers", "broker", "broker and driver"))
        self.counts[name] = self.counts.get(name, 0) + 1
        time.sleep(self._random.random())  # somewhere in a micro-batch
        if "broker" in name:
            self._cluster.wait_in_sync()
            self._down.append(self._random.choice(self._cluster.node_ids))
            self._cluster.kill(*self._down)
        if "driver" in name:
            self._driver.kill()
            self._driver.start()
        if name == "workers":
            self._driver.kill_python(*WORKERS)


@pytest.mark.parametrize("delivery", ["exactly_once", "atomic", "at_least_once"])
def test_records_are_delivered_under_chaos(cluster: LocalCluster, tmp_path: Path, delivery: str) -> None:
    pytest.importorskip("pyspark")
    heal(cluster)
    names = [f"in-{delivery}", f"out-{delivery}"]
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for made in admin.create_topics([NewTopic(one, PARTITIONS, REPLICATION) for one in names]).values():
        made.result(PATIENCE_S)
    source, checkpoint = Source(cluster.bootstrap, names[0]), tmp_path / "checkpoint"
    source.send()
    audit = MicroBatchAudit(checkpoint, once=delivery != "at_least_once", whole=delivery == "atomic")
    driver = SparkDriver(tmp_path, "support.spark_copier", cluster.bootstrap, *names, delivery)
    faults = Faults(cluster, driver, Random(SEED))

    def committed() -> int:
        return len(list((checkpoint / "commits").glob("[0-9]*")))

    def all_there() -> bool:
        return source.rows <= rows_of(read_ledger(cluster.bootstrap, names[1], PARTITIONS)).keys()

    try:
        with SinkAuditor(cluster.bootstrap, names[1], PARTITIONS, audit) as auditor:
            while committed() < BATCHES:
                source.send()
                wanted = committed() + BATCHES_A_ROUND
                driver.wait_for(lambda wanted=wanted: committed() >= wanted or auditor.failed, f"for batch {wanted}")
                assert not auditor.failed
                faults.strike()
            heal(cluster)
            driver.wait_for(all_there, "for all records")
    finally:
        driver.kill()
    found = rows_of(read_ledger(cluster.bootstrap, names[1], PARTITIONS))
    doubled = sum(found.values()) - len(found)
    print(f"\n{delivery}: {committed()} micro-batches, {len(source.rows)} records, {doubled} doubled,"
          f" {audit.snapshots} snapshots, faults: {faults.counts}")  # fmt: skip
    assert found.keys() == source.rows
    if delivery == "at_least_once":
        assert doubled, "no fault has hit the middle of a micro-batch: the run shows nothing"
    else:
        assert doubled == 0
        with Admin(cluster.bootstrap) as minikafka:
            assert [one for one in minikafka.list_transactions() if one.state == "Ongoing"] == []
