"""Programs that use a cluster with confluent-kafka (librdkafka), and record what they did; each is a thread.

The delivery timeout of the idempotent producer is librdkafka's default, five minutes, and no fault lasts as long. With
20 seconds a run had records twice after local timeouts: see `chaos.written_anew`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import confluent_kafka as ck

from chaos.history import (
    AbortTransaction,
    Action,
    BeginTransaction,
    CommitTransaction,
    Event,
    Outcome,
    Poll,
    Position,
    Produce,
    Read,
    Recorder,
)
from chaos.workload.values import KEY_COUNT, name_in, name_of
from minikafka.protocol.names import TopicPartition

TIMEOUT_S = 20
COMMON = {"log_level": 0, "socket.timeout.ms": 3_000, "reconnect.backoff.max.ms": 500}
RECORDS_MAX = 100
ATTEMPTS_MAX = 5


class ConfluentRun:
    """The threads of one run. All write to, or read, one topic with a fixed number of partitions.

    Attributes:
        done: How often each thing succeeded.
    """

    def __init__(self, bootstrap: str, recorder: Recorder, seed: str, topic: str, partitions: int) -> None:
        self.bootstrap = bootstrap
        self.recorder = recorder
        self.seed = seed
        self.partitions = [TopicPartition(topic, index) for index in range(partitions)]
        self.done = {"records": 0, "transactions": 0, "aborted": 0, "reads": 0}
        self._stop = threading.Event()
        self._failures: list[BaseException] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """All programs, during a block. Raises what ended a program."""
        programs = [self.produce, self.transact, self.transact, self.read_committed, self.read_uncommitted]
        threads = [
            threading.Thread(target=self._live_on, args=(f"confluent-{program.__name__}-{number}", program))
            for number, program in enumerate(programs)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        if self._failures:
            raise self._failures[0]

    def _live_on(self, name: str, program: Callable[[str, str, Random], None]) -> None:
        """A program that ends by an error of the cluster begins again, as another process."""
        life = 0
        while not self._stop.is_set():
            life += 1
            try:
                program(name, f"{name}/{life}", Random(f"{self.seed}/{name}/{life}"))
            except ck.KafkaException:
                self._stop.wait(0.5)
            except BaseException as error:
                self._failures.append(error)
                raise

    # -- programs ------------------------------------------------------------------------------------------------

    def produce(self, name: str, process: str, chance: Random) -> None:
        """An idempotent producer."""
        producer = ck.Producer({
            **COMMON, "bootstrap.servers": self.bootstrap, "enable.idempotence": True, "acks": "all", "linger.ms": 2,
        })  # fmt: skip
        sending = Sending(self, producer, process, chance)
        while not self._stop.wait(0.01):
            sending.send()
            producer.poll(0)
        producer.flush(2 * TIMEOUT_S)

    def transact(self, name: str, process: str, chance: Random) -> None:
        """A transactional producer; one transaction in six is aborted. Raises KafkaException if it can do no more."""
        producer = ck.Producer({
            **COMMON, "bootstrap.servers": self.bootstrap, "transactional.id": name, "transaction.timeout.ms": 10_000,
            "linger.ms": 2,
        })  # fmt: skip
        producer.init_transactions(TIMEOUT_S)
        sending = Sending(self, producer, process, chance)
        while not self._stop.wait(chance.random() * 0.2):
            producer.begin_transaction()
            sending.note(BeginTransaction())
            for _ in range(chance.choice((1, 2, 5, 10))):
                sending.send()
                producer.poll(0)
            if chance.random() < 1 / 6:
                producer.flush(chance.random())
                self._abort(sending)
            elif self._commit(sending):
                self.done["transactions"] += 1
            else:
                self._abort(sending)

    def read_committed(self, name: str, process: str, chance: Random) -> None:
        """An assigned consumer."""
        self._read(process, read_committed=True)

    def read_uncommitted(self, name: str, process: str, chance: Random) -> None:
        """An assigned consumer."""
        self._read(process, read_committed=False)

    def _read(self, process: str, *, read_committed: bool) -> None:
        consumer = ck.Consumer({
            **COMMON, "bootstrap.servers": self.bootstrap, "group.id": "unused", "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "auto.offset.reset": "error",
        })  # fmt: skip
        start = Position(tuple((tp, 0) for tp in self.partitions), "assigned")
        self.recorder.complete(self.recorder.invoke(process, start), Outcome.OK)
        consumer.assign([ck.TopicPartition(*tp, 0) for tp in self.partitions])
        try:
            while not self._stop.is_set():
                poll = Poll(read_committed=read_committed)
                invocation = self.recorder.invoke(process, poll)
                messages = consumer.consume(RECORDS_MAX, 0.3)
                reads = tuple(_read_of(one) for one in messages if one.error() is None)
                self.recorder.complete(invocation, Outcome.OK, Poll(reads, read_committed))
                self.done["reads"] += len(reads)
        finally:
            consumer.close()

    # -- transactions ----------------------------------------------------------------------------------------------

    def _commit(self, sending: Sending) -> bool:
        """False: the transaction must be aborted. Raises KafkaException if the outcome is unknown."""
        return self._end(sending, CommitTransaction(), sending.producer.commit_transaction)

    def _abort(self, sending: Sending) -> None:
        self._end(sending, AbortTransaction(), sending.producer.abort_transaction)
        self.done["aborted"] += 1

    def _end(self, sending: Sending, action: Action, call: Callable[[float], None]) -> bool:
        invocation = self.recorder.invoke(sending.process, action)
        for attempt in range(ATTEMPTS_MAX):
            try:
                call(TIMEOUT_S)
                self.recorder.complete(invocation, Outcome.OK)
                return True
            except ck.KafkaException as failure:
                error = failure.args[0]
                if error.txn_requires_abort():
                    self.recorder.complete(invocation, Outcome.FAIL, info=str(error))
                    return False
                if not error.retriable() or attempt == ATTEMPTS_MAX - 1:
                    self.recorder.complete(invocation, Outcome.UNKNOWN, info=str(error))
                    raise
        raise AssertionError("the last attempt returns or raises")


class Sending:
    """A producer whose records are in the history."""

    def __init__(self, run: ConfluentRun, producer: ck.Producer, process: str, chance: Random) -> None:
        self.run = run
        self.producer = producer
        self.process = process
        self._chance = chance
        self._sent = 0

    def note(self, action: Action) -> None:
        """Record an operation that has succeeded."""
        self.run.recorder.complete(self.run.recorder.invoke(self.process, action), Outcome.OK)

    def send(self) -> None:
        """Queue a record. Raises KafkaException if the producer can do no more."""
        self._sent += 1
        tp, value = self._chance.choice(self.run.partitions), name_of(self.process, self._sent)
        key = f"key-{self._chance.randrange(KEY_COUNT)}" if self._chance.random() < 0.5 else None
        invocation = self.run.recorder.invoke(self.process, Produce(tp, key, value))
        try:
            self.producer.produce(
                tp.topic, value, key, partition=tp.partition, on_delivery=_Outcome(self.run, invocation)
            )
        except (BufferError, ck.KafkaException) as error:
            self.run.recorder.complete(invocation, Outcome.FAIL, info=str(error))
            if isinstance(error, ck.KafkaException):
                raise


class _Outcome:
    """Records the outcome of one record. An error may hide an attempt that succeeded."""

    def __init__(self, run: ConfluentRun, invocation: Event) -> None:
        self._run = run
        self._invocation = invocation

    def __call__(self, error: Any, message: Any) -> None:
        if error is not None:
            self._run.recorder.complete(self._invocation, Outcome.UNKNOWN, info=str(error))
            return
        sent = self._invocation.action
        assert isinstance(sent, Produce)
        offset = message.offset()
        known = offset if offset is not None and offset >= 0 else None
        self._run.recorder.complete(
            self._invocation, Outcome.OK, Produce(sent.partition, sent.key, sent.value, known)
        )
        self._run.done["records"] += 1


def _read_of(message: Any) -> Read:
    key, value = message.key(), message.value() or b""
    place = TopicPartition(message.topic(), message.partition())
    return Read(place, message.offset(), None if key is None else key.decode(), name_in(value))
