"""A member of a group with a client for Python; `GroupMember.java` describes the lines that it speaks.

    python -m support.mixed_groups.member CLIENT BOOTSTRAP GROUP classic|consumer SESSION_MS TOPIC...
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

POLL_S = 0.3
RECORDS_MAX = 200
COMMIT_S = 10
Place = tuple[str, int]


class Arguments(NamedTuple):
    """What the command line says."""

    bootstrap: str
    group: str
    protocol: str
    session_ms: int
    topics: Sequence[str]


class Member(Protocol):
    """A consumer that has joined a group.

    Attributes:
        failures: The errors of its client.
    """

    failures: tuple[type[BaseException], ...]

    def poll(self) -> Iterable[tuple[str, int, int, bytes]]:
        """Topic, partition, offset and value of records."""

    def store(self, offsets: Mapping[Place, int]) -> None:
        """Commit offsets."""

    def leave(self) -> None:
        """Leave the group."""


_OWNED: set[Place] = set()
_LOCK = threading.Lock()


def say(line: str) -> None:
    with _LOCK:
        print(line.replace("\n", " "), flush=True)


def moved(cause: str, places: Iterable[Place]) -> None:
    found = sorted(places)
    if cause == "assigned":
        _OWNED.update(found)
    else:
        _OWNED.difference_update(found)
    if found:
        say(f"moved {cause} {time.monotonic_ns()} " + " ".join(f"{topic}:{number}" for topic, number in found))


class Confluent:
    """confluent-kafka, which is librdkafka."""

    def __init__(self, arguments: Arguments) -> None:
        import confluent_kafka as ck

        self._ck = ck
        self.failures = (ck.KafkaException, RuntimeError)
        options: dict[str, Any] = {
            "bootstrap.servers": arguments.bootstrap, "group.id": arguments.group, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "log_level": 0, "socket.timeout.ms": 3_000,
            "reconnect.backoff.max.ms": 500, "group.protocol": arguments.protocol,
        }  # fmt: skip
        if arguments.protocol == "classic":
            options |= {
                "session.timeout.ms": arguments.session_ms, "heartbeat.interval.ms": 1_000,
                "partition.assignment.strategy": "range",
            }  # fmt: skip
        self._consumer = ck.Consumer(options)
        self._consumer.subscribe(
            list(arguments.topics),
            on_assign=self._moved("assigned"), on_revoke=self._moved("revoked"), on_lost=self._moved("lost"),
        )  # fmt: skip

    @staticmethod
    def _moved(cause: str) -> Callable[[Any, Any], None]:
        return lambda _, partitions: moved(cause, [(one.topic, one.partition) for one in partitions])

    def poll(self) -> Iterable[tuple[str, int, int, bytes]]:
        messages = self._consumer.consume(RECORDS_MAX, POLL_S)
        return [(one.topic(), one.partition(), one.offset(), one.value()) for one in messages if one.error() is None]

    def store(self, offsets: Mapping[Place, int]) -> None:
        named = [self._ck.TopicPartition(*place, offset) for place, offset in offsets.items()]
        for one in self._consumer.commit(offsets=named, asynchronous=False):
            if one.error is not None:
                raise self._ck.KafkaException(one.error)

    def leave(self) -> None:
        self._consumer.close()


class KafkaPython:
    """kafka-python."""

    def __init__(self, arguments: Arguments) -> None:
        import kafka
        from kafka.coordinator.assignors.range import RangePartitionAssignor

        class Listener(kafka.ConsumerRebalanceListener):
            def on_partitions_assigned(self, assigned: Any) -> None:
                moved("assigned", map(tuple, assigned))

            def on_partitions_revoked(self, revoked: Any) -> None:
                moved("revoked", map(tuple, revoked))

        self._kafka = kafka
        self.failures = (kafka.errors.KafkaError, AssertionError)
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=arguments.bootstrap, group_id=arguments.group, enable_auto_commit=False,
            auto_offset_reset="earliest", session_timeout_ms=arguments.session_ms, heartbeat_interval_ms=1_000,
            partition_assignment_strategy=[RangePartitionAssignor],
        )  # fmt: skip
        self._consumer.subscribe(list(arguments.topics), listener=Listener())

    def poll(self) -> Iterable[tuple[str, int, int, bytes]]:
        found = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX)
        return [(tp.topic, tp.partition, one.offset, one.value) for tp, ones in found.items() for one in ones]

    def store(self, offsets: Mapping[Place, int]) -> None:
        make = self._kafka.OffsetAndMetadata
        named = {self._kafka.TopicPartition(*place): make(offset, "", -1) for place, offset in offsets.items()}
        self._consumer.commit(named)

    def leave(self) -> None:
        self._consumer.close(autocommit=False)


class AioKafka:
    """aiokafka, in a thread: it rebalances while nobody polls."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._loop = asyncio.new_event_loop()
        self.failures = (TimeoutError,)
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._wait(self._start())

    def _wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _start(self) -> None:
        import aiokafka
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor

        class Listener(aiokafka.ConsumerRebalanceListener):
            async def on_partitions_assigned(self, assigned: Any) -> None:
                moved("assigned", map(tuple, assigned))

            async def on_partitions_revoked(self, revoked: Any) -> None:
                moved("revoked", map(tuple, revoked))

        self._aiokafka = aiokafka
        self.failures = (aiokafka.errors.KafkaError, TimeoutError)
        self._consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self._arguments.bootstrap, group_id=self._arguments.group, enable_auto_commit=False,
            auto_offset_reset="earliest", session_timeout_ms=self._arguments.session_ms, heartbeat_interval_ms=1_000,
            request_timeout_ms=10_000, partition_assignment_strategy=(RangePartitionAssignor,),
        )  # fmt: skip
        self._consumer.subscribe(list(self._arguments.topics), listener=Listener())
        await self._consumer.start()

    def poll(self) -> Iterable[tuple[str, int, int, bytes]]:
        found = self._wait(self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=RECORDS_MAX))
        return [(tp.topic, tp.partition, one.offset, one.value) for tp, ones in found.items() for one in ones]

    def store(self, offsets: Mapping[Place, int]) -> None:
        named = {self._aiokafka.TopicPartition(*place): offset for place, offset in offsets.items()}
        self._wait(asyncio.wait_for(self._consumer.commit(named), COMMIT_S))

    def leave(self) -> None:
        self._wait(self._consumer.stop())


class Ours:
    """Our client."""

    def __init__(self, arguments: Arguments) -> None:
        from minikafka.client import Listener
        from minikafka.client.blocking import Consumer
        from minikafka.protocol.errors import KafkaError

        class Telling(Listener):
            async def on_partitions_assigned(self, partitions: Any) -> None:
                moved("assigned", map(tuple, partitions))

            async def on_partitions_revoked(self, partitions: Any) -> None:
                moved("revoked", map(tuple, partitions))

            async def on_partitions_lost(self, partitions: Any) -> None:
                moved("lost", map(tuple, partitions))

        self.failures = (KafkaError,)
        options: dict[str, Any] = {"group_protocol": arguments.protocol}
        if arguments.protocol == "classic":
            options |= {
                "session_timeout_ms": arguments.session_ms, "heartbeat_interval_ms": 1_000,
                "partition_assignment_strategy": ("range",),
            }  # fmt: skip
        self._consumer = Consumer(
            bootstrap_servers=arguments.bootstrap, group_id=arguments.group, enable_auto_commit=False,
            auto_offset_reset="earliest", request_timeout_ms=3_000, **options,
        )  # fmt: skip
        self._consumer.__enter__()
        self._consumer.subscribe(list(arguments.topics), listener=Telling())

    def poll(self) -> Iterable[tuple[str, int, int, bytes]]:
        found = self._consumer.poll(int(POLL_S * 1000), RECORDS_MAX)
        return [(one.topic, one.partition, one.offset, one.value or b"") for one in found]

    def store(self, offsets: Mapping[Place, int]) -> None:
        from minikafka.protocol.names import TopicPartition

        self._consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})

    def leave(self) -> None:
        self._consumer.__exit__(None, None, None)


CLIENTS: dict[str, Callable[[Arguments], Member]] = {
    "confluent": Confluent,
    "kafka-python": KafkaPython,
    "aiokafka": AioKafka,
    "ours": Ours,
}


def obey(member: Member, line: str) -> str:
    """Do what a line says; the answer."""
    word, *places = line.split()
    if word == "poll":
        found = [f"{topic}:{number}:{offset}:{value.decode()}" for topic, number, offset, value in member.poll()]
        return " ".join(["records", *found])
    if word == "leave":
        member.leave()
        return "done"
    assert word == "store", line
    named = [place.rsplit(":", 2) for place in places]
    offsets = {(topic, int(number)): int(offset) for topic, number, offset in named if (topic, int(number)) in _OWNED}
    if offsets:
        member.store(offsets)
    return "done"


def main(words: Sequence[str]) -> None:
    client, bootstrap, group, protocol, session_ms, *topics = words
    member = CLIENTS[client](Arguments(bootstrap, group, protocol, int(session_ms), topics))
    for line in sys.stdin:
        try:
            answer = obey(member, line)
        except member.failures as error:
            answer = f"error {error!r}"
        say(answer)


if __name__ == "__main__":
    main(sys.argv[1:])
