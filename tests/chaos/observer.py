"""Observes the leaders and in-sync replicas of partitions while faults are injected, for the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import trio
from support.logins import Login

from chaos.journal import Journal
from minikafka.client import Admin
from minikafka.client.connections.cluster_metadata import Topic
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

EVERY_S = 0.5
PATIENCE_S = 1.0


class Told(NamedTuple):
    """A partition as one broker describes it."""

    leader_epoch: int
    leader: int
    in_sync: tuple[int, ...]


async def observe(journal: Journal, logins: Sequence[Login], topics: Collection[str]) -> None:
    """Ask each broker, by its own address, twice a second until cancelled, and record what has changed."""
    known: dict[TopicPartition, Told] = {}
    while True:
        answers: list[dict[TopicPartition, Told]] = []
        async with trio.open_nursery() as asking:
            for login in logins:
                asking.start_soon(_ask, login, topics, answers)
        for tp in sorted({tp for answer in answers for tp in answer}):
            now = agreed(answer[tp] for answer in answers if tp in answer)
            before = known.get(tp)
            if before is None or (now[1:] != before[1:] and now.leader_epoch >= before.leader_epoch):
                journal.state(tp, now.leader, now.in_sync)
                known[tp] = now
        await trio.sleep(EVERY_S)


def agreed(told: Iterable[Told]) -> Told:
    """What most brokers say among those that know the latest leader epoch; of equals, that with fewer in sync."""
    counts = Counter(told)
    return max(counts, key=lambda one: (one.leader_epoch, counts[one], -len(one.in_sync)))


async def _ask(login: Login, topics: Collection[str], answers: list[dict[TopicPartition, Told]]) -> None:
    """Add an answer; none if the broker is slow or cannot be reached."""
    found: dict[TopicPartition, Told] = {}
    with trio.move_on_after(PATIENCE_S):
        try:
            async with Admin(**login.minikafka) as admin:
                described = await admin.describe_topics(topics)
        except KafkaError:
            return
        for topic in described.values():
            if isinstance(topic, Topic):
                for one in topic.partitions:
                    tp = TopicPartition(topic.name, one.index)
                    found[tp] = Told(one.leader_epoch, one.leader, tuple(sorted(one.in_sync_replicas)))
        answers.append(found)
