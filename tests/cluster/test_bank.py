"""The bank: transfers as read-process-write by five clients in turn, while nodes and programs die, hang and come back.

In every snapshot of a read_committed consumer the total is the same, no aborted record is visible, and no transfer is
counted twice; at the end each is counted once, and the last stable offset is at the end. `support.bank` has the parts.
`MINIKAFKA_BANK=300` goes on for five minutes (`make bank`); `MINIKAFKA_BANK_SEED` selects other faults.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import confluent_kafka as ck
import pytest
from support.bank.ledger import Auditor, read_ledger
from support.bank.programs import Programs, Slot
from support.bank.transfers import Audit, Transfer, random_transfer
from support.clusters import check_nobody_crashed, heal
from support.committed import until_no_transaction_is_open
from support.logins import Login, Logins

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Producer
from minikafka.protocol.names import TopicPartition

LASTS_S = float(os.environ.get("MINIKAFKA_BANK", "6"))
SEED = int(os.environ.get("MINIKAFKA_BANK_SEED", "1"))
PARTITIONS = 3
SOURCE_PARTITIONS = 2
TRANSFERS_PER_S = 60
PATIENCE_S = 120.0
HANGS_S = 9
"""The longest pause of a node; others take its place as leader after a session of 5 s."""
FENCING_S = 60
LONG_S = 60

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300 + 2 * LASTS_S)]


class Orders:
    """Transfers, written to partitions of the sources by an idempotent producer at a steady rate until `end`."""

    def __init__(self, login: Login, sources: Sequence[str]) -> None:
        self.transfers: list[Transfer] = []
        self._targets = [(topic, index) for topic in sources for index in range(SOURCE_PARTITIONS)]
        self._ending = threading.Event()
        self._thread = ThreadPoolExecutor(1)
        self._writing = self._thread.submit(self._write, login)

    def _write(self, login: Login) -> None:
        random = Random(SEED)
        with Producer(**login.minikafka, delivery_timeout_ms=int(PATIENCE_S * 1000)) as producer:
            while not self._ending.wait(1 / TRANSFERS_PER_S):
                transfer = random_transfer(len(self.transfers), random)
                topic, partition = self._targets[transfer.number % len(self._targets)]
                self.transfers.append(transfer)
                producer.send(topic, transfer.encode(), partition=partition)

    def end(self) -> list[Transfer]:
        """All transfers, once they are acknowledged."""
        self._ending.set()
        self._writing.result()
        return self.transfers


class Bank:
    """The topics, the programs, and the faults."""

    def __init__(self, cluster: LocalCluster, folder: Path, name: str) -> None:
        self.cluster = cluster
        self.logins = Logins.of(cluster)
        self.chance = Random(SEED)
        self.name, self.ledger = name, f"{name}-ledger"
        self.sources = (f"{name}-shared", f"{name}-assigned")
        with Admin(**self.logins.admin.minikafka) as admin:
            for topic in self.sources:
                admin.create_topic(topic, partitions=SOURCE_PARTITIONS, replication_factor=3)
            admin.create_topic(self.ledger, partitions=PARTITIONS, replication_factor=3)
        shared, assigned = self.sources
        self.slots = [
            Slot(f"{name}-one", shared, "static"),
            Slot(f"{name}-two", shared, "dynamic"),
            *(Slot(f"{name}-own-{index}", assigned, str(index)) for index in range(SOURCE_PARTITIONS)),
        ]
        self.programs = Programs(folder, self.logins.load, name, self.ledger, PARTITIONS)

    # -- faults --------------------------------------------------------------------------------------------------

    def node_dies(self) -> None:
        node = self.chance.choice(self.cluster.node_ids)
        self.cluster.kill(node)
        time.sleep(self.chance.random() * 2)
        self.cluster.start(node)

    def node_hangs(self) -> None:
        node = self.chance.choice(self.cluster.node_ids)
        self.cluster.pause(node)
        time.sleep(self.chance.random() * HANGS_S)
        self.cluster.resume(node)

    def two_nodes_die(self) -> None:
        nodes = self.chance.sample(self.cluster.node_ids, 2)
        self.cluster.kill(*nodes)
        self.cluster.start(*nodes)

    def node_leaves(self) -> None:
        node = self.chance.choice(self.cluster.node_ids)
        self.cluster.stop(node)
        self.cluster.start(node)

    def leaders_move_back(self) -> None:
        heal(self.cluster)

    def program_dies(self) -> None:
        self.programs.kill(self.chance.choice(self.slots))

    def program_hangs(self) -> None:
        self.programs.replace(self.chance.choice(self.slots))

    def zombies_come_back(self) -> None:
        self.programs.wake_zombies()

    def misfortunes(self) -> Iterator[Callable[[], None]]:
        """Every fault, then every fault again in another order, and so on."""
        faults = [
            self.program_hangs, self.node_dies, self.zombies_come_back, self.program_dies, self.node_hangs,
            self.program_hangs, self.node_leaves, self.zombies_come_back, self.leaders_move_back, self.two_nodes_die,
        ]  # fmt: skip
        while True:
            yield from faults
            self.chance.shuffle(faults)

    # -- the end -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End the programs, and what they have left open, by new producers with their transactional ids."""
        self.programs.end()
        for slot in self.slots:
            producer = ck.Producer({
                **self.logins.load.confluent, "transactional.id": slot.transactional_id, "log_level": 0,
            })  # fmt: skip
            producer.init_transactions(FENCING_S)

    def every_partition(self) -> list[TopicPartition]:
        """The partitions of all topics, and those of the committed offsets."""
        with Admin(**self.logins.admin.minikafka) as admin:
            return [
                TopicPartition(topic, one.index)
                for topic in (*self.sources, self.ledger, "__consumer_offsets")
                for one in admin.describe_topic(topic).partitions
            ]


@pytest.mark.parametrize("nodes", ["three", "secured_three"], ids=["open", "secured"])
def test_every_transfer_is_counted_once(
    nodes: str, request: pytest.FixtureRequest, tmp_path: Path, name: str
) -> None:
    three = request.getfixturevalue(nodes)
    bank = Bank(three, tmp_path, name)
    load = bank.logins.load
    suffered, faults = Counter[str](), bank.misfortunes()
    orders = Orders(load, bank.sources)
    try:
        with Auditor(load, bank.ledger, PARTITIONS) as auditor:
            deadline = time.monotonic() + LASTS_S
            while time.monotonic() < deadline and not auditor.failed:
                bank.programs.keep_running(*bank.slots)
                time.sleep(bank.chance.random())
                fault = next(faults)
                fault()
                suffered[fault.__name__] += 1
                print(f"{LASTS_S - (deadline - time.monotonic()):6.1f} s: {fault.__name__}")
                check_nobody_crashed(three)
            heal(three)
            bank.programs.wake_zombies()
            transfers = orders.end()
            deadline = time.monotonic() + PATIENCE_S
            while len(auditor.audit.counted) < len(transfers) and not auditor.failed:
                assert time.monotonic() < deadline, f"{len(auditor.audit.counted)} of {len(transfers)}"
                bank.programs.keep_running(*bank.slots)
                time.sleep(0.2)
        bank.settle()
    finally:
        orders.end()
        bank.programs.end()
        heal(three)
    until_no_transaction_is_open(three, bank.every_partition())
    assert auditor.check(), "a transaction is visible in part"
    auditor.audit.check_end(transfers)
    with pytest.raises(AssertionError, match="aborted records are visible"):
        Audit().check(read_ledger(load, bank.ledger, PARTITIONS, "read_uncommitted"))
    print(f"\n{len(transfers)} transfers, {auditor.audit.snapshots} snapshots, {suffered.total()} faults, seed {SEED}")
    print(f"faults: {dict(suffered)}")
    print(f"programs started: {dict(bank.programs.started)}; transactions: {dict(auditor.audit.by_client)}")
    if LASTS_S >= LONG_S:
        assert len(auditor.audit.by_client) == len(bank.programs.started), "a client has committed nothing"
