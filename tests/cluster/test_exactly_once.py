"""Consume, transform, produce in transactions on three nodes: nodes and programs are killed, zombies come back.

Every record of the source is in the target once, for a read_committed consumer, and no transaction stays open.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import confluent_kafka as ck
import pytest
from support import exactly_once
from support.clusters import heal
from support.committed import until_no_transaction_is_open

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Producer
from minikafka.protocol.names import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
RECORDS = 3_500
PARTITIONS = 3
PATIENCE_S = 180
READ_S = 1.0


class Programs:
    """The programs `support.exactly_once`, by transactional id; "one" is a static member of its group."""

    def __init__(self, *arguments: str) -> None:
        self._bootstrap, *self._rest = arguments
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.zombies: list[subprocess.Popen[bytes]] = []

    def keep_running(self, *transactional_ids: str) -> None:
        for name in transactional_ids:
            found = self.processes.get(name)
            if found is None or found.poll() is not None:
                command = [sys.executable, exactly_once.__file__, self._bootstrap, name, *self._rest]
                command += [name] if name == "one" else []
                self.processes[name] = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def stop_and_replace(self, name: str) -> None:
        """The process stands still, another takes its place, and it comes back as a zombie."""
        zombie = self.processes.pop(name)
        zombie.send_signal(signal.SIGSTOP)
        self.zombies.append(zombie)
        self.keep_running(name)

    def end(self) -> None:
        for process in [*self.processes.values(), *self.zombies]:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


class Target:
    """A read_committed consumer of all partitions, which remembers what it has seen."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.values: list[bytes] = []
        self._consumer = ck.Consumer({
            "bootstrap.servers": bootstrap, "group.id": "unused", "isolation.level": "read_committed",
            "enable.auto.commit": False, "auto.offset.reset": "earliest", "log_level": 0,
        })  # fmt: skip
        self._consumer.assign([ck.TopicPartition(topic, index, 0) for index in range(PARTITIONS)])

    def read(self) -> int:
        """Read what is there within a second; returns the number of values so far."""
        for message in self._consumer.consume(5_000, READ_S):
            if message.error() is None:
                self.values.append(message.value())
        return len(self.values)


def test_every_record_is_copied_once(three: LocalCluster, name: str) -> None:
    source, target = f"{name}-from", f"{name}-to"
    with Admin(three.bootstrap) as admin:
        for topic in (source, target):
            admin.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
    expected = [b"%d" % number for number in range(RECORDS)]
    with Producer(bootstrap_servers=three.bootstrap) as producer:
        for number, value in enumerate(expected):
            producer.send(source, value, partition=number % PARTITIONS)
    programs = Programs(three.bootstrap, name, source, target)
    copied = Target(three.bootstrap, target)
    deadline, round_number = time.monotonic() + PATIENCE_S, 0
    try:
        while copied.read() < RECORDS:
            assert time.monotonic() < deadline, f"{len(copied.values)} of {RECORDS} after {round_number} rounds"
            programs.keep_running("one", "two")
            round_number += 1
            if round_number % 3 == 0:
                three.kill(round_number // 3 % 3 + 1)
            elif round_number % 3 == 1:
                heal(three)
            if round_number % 5 == 2:
                programs.processes["one"].kill()
            if round_number % 7 == 4:
                programs.stop_and_replace("two")
            for zombie in programs.zombies:
                zombie.send_signal(signal.SIGCONT)
    finally:
        programs.end()
        heal(three)
    copied.read()
    assert sorted(copied.values, key=int) == expected
    partitions = [TopicPartition(target, index) for index in range(PARTITIONS)]
    print(f"\n{round_number} rounds")
    until_no_transaction_is_open(three, partitions)
