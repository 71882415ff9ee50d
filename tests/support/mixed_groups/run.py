"""`MixedRun`: members of several clients that come, go and die; a producer; faults; and the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin, Producer
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from support.clients import eventually
from support.mixed_groups.journal import Journal
from support.mixed_groups.member_process import PYTHON, MemberEnded, MemberProcess
from support.mixed_groups.observer import Observer

LATEST = -1
TOPICS = ("first", "second")
PARTITIONS = 4
PRODUCED_PER_S = 50
COMMITS = 0.3
PATIENCE_S = 180.0
POLL_S = 0.05


class Kind(NamedTuple):
    """A client and its protocol."""

    client: str
    protocol: str


class MixedRun:
    """The groups of a cluster.

    Args:
        groups: The kinds of the members of each group.
        java: The command that runs `GroupMember.java`.
        life_s: The longest life of a member.
        deaths: The share of members that end without leaving their group.
        down_s: How long a node is down at most.

    Attributes:
        journals: By group.
        starts: How many members there were, by kind.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        groups: Mapping[str, Sequence[Kind]],
        *,
        java: Sequence[str],
        seed: str,
        session_ms: int,
        life_s: float,
        deaths: float = 0.4,
        down_s: float = 3,
    ) -> None:
        self._deaths, self._down_s = deaths, down_s
        self.cluster, self.seed, self.session_ms, self.life_s = cluster, seed, session_ms, life_s
        self.java = java
        self.journals = {group: Journal(group) for group in groups}
        self.starts: dict[Kind, int] = {}
        self.kills = 0
        self.sent = 0
        self.lock = threading.Lock()
        self._chance = Random(f"{seed}/faults")
        self._slots = [(group, number, kind) for group, kinds in groups.items() for number, kind in enumerate(kinds)]
        self._staying, self._ending, self._no_more = threading.Event(), threading.Event(), threading.Event()
        self._failures: list[BaseException] = []
        self._ready: set[tuple[str, int]] = set()
        with Admin(cluster.bootstrap) as admin:
            for topic in TOPICS:
                admin.create_topic(topic, partitions=PARTITIONS, replication_factor=len(cluster.broker_ids))
        self.observer = Observer(cluster.bootstrap, list(groups))

    @contextmanager
    def running(self) -> Iterator[None]:
        """The members and the producer, during a block. Raises what ended one of them."""
        threads = [threading.Thread(target=self._guarded, args=(self._slot, *slot)) for slot in self._slots]
        threads.append(threading.Thread(target=self._guarded, args=(self._produce,)))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            for event in (self._no_more, self._staying, self._ending):
                event.set()
            for thread in threads:
                thread.join()
            self.observer.stop()
        if self._failures:
            raise self._failures[0]

    # -- faults ----------------------------------------------------------------------------------------------------

    def kill_a_leader(self) -> None:
        """Kill the coordinator of a group, or the leader of a partition, and start it again a little later."""
        with Admin(self.cluster.bootstrap) as admin:
            if self._chance.random() < 0.6:
                node = self._coordinator(admin, self._chance.choice(list(self.journals)))
            else:
                topic = admin.describe_topic(self._chance.choice(TOPICS))
                node = self._chance.choice(topic.partitions).leader
        if node not in self.cluster.broker_ids or not self.cluster.running(node):
            return
        self.cluster.kill(node)
        self.kills += 1
        time.sleep(self._chance.random() * self._down_s)
        self.cluster.start(node)

    def _coordinator(self, admin: Admin, group: str) -> int:
        return admin.describe_group(group).coordinator

    # -- the end ---------------------------------------------------------------------------------------------------

    def everybody_stays(self) -> None:
        """From now on nobody goes; waits until all are there."""
        self._staying.set()
        self._until(lambda: len(self._ready) == len(self._slots))

    def seconds_to_settle(self, sessions: int = 1) -> dict[str, float]:
        """How long each group takes, from now on, until all members have their partitions.

        Fails unless they have within so many session time-outs. Members that have just died are missed after one.
        """
        began, found = time.monotonic(), {}
        places = {(topic, number) for topic in TOPICS for number in range(PARTITIONS)}

        def all_settled() -> bool:
            for group in self.journals.keys() - found.keys():
                if self._is_settled(group, places):
                    found[group] = time.monotonic() - began
            return len(found) == len(self.journals)

        self._until(all_settled, sessions * self.session_ms / 1000)
        return found

    def _is_settled(self, group: str, places: set[tuple[str, int]]) -> bool:
        size = sum(name == group for name, _, _ in self._slots)
        with self.lock:
            owners = self.journals[group].owners()
        if any(len(owners.get(place, ())) != 1 for place in places):
            return False
        try:
            with Admin(self.cluster.bootstrap, request_timeout_ms=3_000) as admin:
                described = admin.describe_group(group)
        except KafkaError:
            return False
        assigned = [tp for member in described.members for tp in member.assignment]
        return described.state == "Stable" and len(described.members) == size and len(assigned) == len(places)

    def all_is_read(self) -> set[str]:
        """Waits until each group has committed all; the values of all acknowledged records."""
        self._no_more.set()
        partitions = [TopicPartition(topic, number) for topic in TOPICS for number in range(PARTITIONS)]

        def is_done() -> bool:
            with Admin(self.cluster.bootstrap) as admin:
                ends = {tp: one.offset for tp, one in admin.list_offsets(dict.fromkeys(partitions, LATEST)).items()}
                return all(
                    {tp: one.offset for tp, one in admin.list_group_offsets(group).items()} == ends
                    for group in self.journals
                )

        self._until(is_done)
        return {str(number) for number in range(self.sent)}

    def _until(self, condition: Callable[[], bool], timeout_s: float = PATIENCE_S) -> None:
        eventually(lambda: bool(self._failures) or condition(), timeout_s=timeout_s)
        if self._failures:
            raise self._failures[0]

    # -- members ---------------------------------------------------------------------------------------------------

    def _guarded(self, target: Callable[..., None], *arguments: object) -> None:
        try:
            target(*arguments)
        except BaseException as error:
            self._failures.append(error)
            raise

    def _slot(self, group: str, number: int, kind: Kind) -> None:
        """One member after the other."""
        life = 0
        while not self._ending.is_set():
            life += 1
            name = f"{group}-{kind.client}-{kind.protocol}-{number}/{life}"
            chance = Random(f"{self.seed}/{name}")
            self.starts[kind] = self.starts.get(kind, 0) + 1
            try:
                self._live(group, number, kind, name, chance)
            except MemberEnded:
                pass
            finally:
                self._ready.discard((group, number))
            self._staying.wait(chance.random() * self.life_s / 5)

    def _live(self, group: str, number: int, kind: Kind, name: str, chance: Random) -> None:
        command = list(self.java) if kind.client == "java" else [*PYTHON, kind.client]
        arguments = [self.cluster.bootstrap, group, kind.protocol, str(self.session_ms), *TOPICS]
        with MemberProcess(name, command, arguments, self.journals[group], self.lock) as member:
            member.poll()
            ends = time.monotonic() + (0.2 + 0.8 * chance.random()) * self.life_s
            while not self._ending.is_set() and (self._staying.is_set() or time.monotonic() < ends):
                if self._staying.is_set():
                    self._ready.add((group, number))
                member.poll()
                if chance.random() < COMMITS or self._no_more.is_set():
                    member.commit()
            if self._ending.is_set() or chance.random() >= self._deaths:
                member.leave()

    def _produce(self) -> None:
        chance = Random(f"{self.seed}/producer")
        with Producer(self.cluster.bootstrap, delivery_timeout_ms=int(PATIENCE_S * 1000)) as producer:
            while not self._no_more.wait(1 / PRODUCED_PER_S):
                producer.send(chance.choice(TOPICS), str(self.sent).encode(), partition=chance.randrange(PARTITIONS))
                self.sent += 1
