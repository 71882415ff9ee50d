"""Programs that use a cluster with confluent-kafka (librdkafka), and record what they did; each is a thread.

The delivery timeout of the idempotent producer is librdkafka's default, five minutes, and no fault lasts as long. With
20 seconds a run had records twice after local timeouts: see `chaos.written_anew`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import confluent_kafka as ck
from support.logins import Login

from chaos.checks.counted import count_of
from chaos.history import (
    AbortTransaction,
    Action,
    BeginTransaction,
    CommitOffsets,
    CommitTransaction,
    Event,
    Outcome,
    Poll,
    Position,
    Produce,
    Read,
    Recorder,
)
from chaos.workload.plan import CONFLUENT_GROUP, COUNTING
from chaos.workload.threads import TIMEOUT_S, Program, ThreadedRun
from chaos.workload.transformers import OUTPUT
from chaos.workload.values import KEY_COUNT, name_in, name_of
from minikafka.protocol.names import TopicPartition

COMMON = {"log_level": 0, "socket.timeout.ms": 3_000, "reconnect.backoff.max.ms": 500}
RECORDS_MAX = 100
OUTPUT_PARTITION = TopicPartition(OUTPUT, 0)
ATTEMPTS_MAX = 5
GIVE_BACK_POLLS = 50
REJECTIONS = (
    ck.KafkaError.ILLEGAL_GENERATION, ck.KafkaError.UNKNOWN_MEMBER_ID, ck.KafkaError.REBALANCE_IN_PROGRESS,
    ck.KafkaError.FENCED_INSTANCE_ID,
)  # fmt: skip


class ConfluentRun(ThreadedRun):
    """The threads of one run.

    `send_offsets_to_transaction` of librdkafka may wait for ever for a coordinator that was restarted, whatever its
    timeout: its issues 5456 and 5511. `close` of a member may hang in a rebalance.
    """

    CLIENT = "confluent"
    ENDS_A_LIFE = (ck.KafkaException,)
    MAY_HANG = True

    def __init__(self, login: Login, recorder: Recorder, seed: str, topic: str, partitions: int) -> None:
        super().__init__(login, recorder, seed, topic, partitions)
        self.done = {"records": 0, "transactions": 0, "aborted": 0, "reads": 0, "offsets": 0, "transformed": 0}

    def programs(self) -> list[Program]:
        readers = [self.read_committed, self.read_uncommitted, self.member, self.member]
        return [self.produce, self.transact, self.transact, self.transform, *readers]

    # -- programs ------------------------------------------------------------------------------------------------

    def produce(self, name: str, process: str, chance: Random) -> None:
        """An idempotent producer."""
        producer = ck.Producer({
            **COMMON, **self.login.confluent, "enable.idempotence": True, "acks": "all", "linger.ms": 2,
        })  # fmt: skip
        sending = Sending(self, producer, process, chance)
        while not self.stopping.wait(0.01):
            sending.send()
        producer.flush(2 * TIMEOUT_S)

    def transact(self, name: str, process: str, chance: Random) -> None:
        """A transactional producer; one transaction in six is aborted. Raises KafkaException if it can do no more."""
        sending = self._transactional(name, process, chance)
        while not self.stopping.wait(chance.random() * 0.2):
            self._begin(sending)
            for _ in range(chance.choice((1, 2, 5, 10))):
                sending.send()
            if chance.random() < 1 / 6:
                sending.producer.flush(chance.random())
                self._abort(sending)
            elif self._commit(sending):
                self.done["transactions"] += 1
            else:
                self._abort(sending)

    def transform(self, name: str, process: str, chance: Random) -> None:
        """Reads, processes and writes as `chaos.workload.transformers` does, in the same group."""
        sending = self._transactional(name, process, chance)
        member = GroupMember(self, f"{process}.input", chance, COUNTING.name, read_committed=True, resets=False)
        try:
            for _ in range(chance.randint(20, 100)):
                reads = member.poll()
                if reads and not self._count(sending, member, reads):
                    break
                if self.stopping.wait(chance.random() * 0.2):
                    break
        finally:
            member.end(leaves=chance.random() < 0.7 or self.stopping.is_set())

    def read_committed(self, name: str, process: str, chance: Random) -> None:
        """An assigned consumer."""
        self._read(process, read_committed=True)

    def read_uncommitted(self, name: str, process: str, chance: Random) -> None:
        """An assigned consumer."""
        self._read(process, read_committed=False)

    def _read(self, process: str, *, read_committed: bool) -> None:
        consumer = ck.Consumer({
            **COMMON, **self.login.confluent, "group.id": "unused", "enable.auto.commit": False,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
            "auto.offset.reset": "error",
        })  # fmt: skip
        start = Position(tuple((tp, 0) for tp in self.partitions), "assigned")
        self.note(process, start)
        consumer.assign([ck.TopicPartition(*tp, 0) for tp in self.partitions])
        try:
            while not self.stopping.is_set():
                poll = Poll(read_committed=read_committed)
                invocation = self.recorder.invoke(process, poll)
                messages = consumer.consume(RECORDS_MAX, 0.3)
                reads = tuple(_read_of(one) for one in messages if one.error() is None)
                self.recorder.complete(invocation, Outcome.OK, Poll(reads, read_committed))
                self.done["reads"] += len(reads)
        finally:
            consumer.close()

    def member(self, name: str, process: str, chance: Random) -> None:
        """A member of a group, which commits what it has read. It ends by leaving the group, or without a word."""
        member = GroupMember(self, process, chance, CONFLUENT_GROUP, read_committed=chance.random() < 0.5)
        for _ in range(chance.randint(50, 200)):
            member.poll()
            if chance.random() < 0.3:
                member.commit()
            if self.stopping.wait(chance.random() * 0.2):
                break
        member.end(leaves=chance.random() < 0.7 or self.stopping.is_set())

    # -- transactions ----------------------------------------------------------------------------------------------

    def _transactional(self, name: str, process: str, chance: Random) -> Sending:
        """A producer with the name as its transactional id. Raises KafkaException."""
        producer = ck.Producer({
            **COMMON, **self.login.confluent, "transactional.id": name, "transaction.timeout.ms": 10_000,
            "linger.ms": 2,
        })  # fmt: skip
        producer.init_transactions(TIMEOUT_S)
        return Sending(self, producer, process, chance)

    def _begin(self, sending: Sending) -> None:
        sending.producer.begin_transaction()
        self.note(sending.process, BeginTransaction())

    def _count(self, sending: Sending, member: GroupMember, reads: Sequence[Read]) -> bool:
        """One transaction with an output for each record; whether it is committed. Raises as `_commit`."""
        self._begin(sending)
        for read in reads:
            sending.send(OUTPUT_PARTITION, count_of(read.partition, read.offset))
        if member.commit_in(sending) and self._commit(sending):
            self.done["transformed"] += len(reads)
            return True
        self._abort(sending)
        return False

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

    def send(self, partition: TopicPartition | None = None, key: str | None = None) -> None:
        """Queue a record, with any partition and key if none is given.

        Raises KafkaException if the producer can do no more.
        """
        self._sent += 1
        tp, value = partition or self._chance.choice(self.run.partitions), name_of(self.process, self._sent)
        if partition is None and self._chance.random() < 0.5:
            key = f"key-{self._chance.randrange(KEY_COUNT)}"
        invocation = self.run.recorder.invoke(self.process, Produce(tp, key, value))
        try:
            self.producer.produce(
                tp.topic, value, key, partition=tp.partition, on_delivery=_Outcome(self.run, invocation)
            )
        except (BufferError, ck.KafkaException) as error:
            self.run.recorder.complete(invocation, Outcome.FAIL, info=str(error))
            if isinstance(error, ck.KafkaException):
                raise
        self.producer.poll(0)


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


class GroupMember:
    """A member of a group, whose rebalances and commits are in the history.

    Without `resets` it begins at the first offset only where none is committed. librdkafka asks any leader that it is
    told of, also an isolated one of an earlier epoch, for which the committed offset may be out of range, and would
    begin anew there: with Apache Kafka as well.
    """

    def __init__(
        self, run: ConfluentRun, process: str, chance: Random, group: str, *, read_committed: bool, resets: bool = True
    ) -> None:
        self.run = run
        self.process = process
        self._group = group
        self._read_committed = read_committed
        self._next: dict[TopicPartition, int] = {}
        self._epochs: dict[TopicPartition, int] = {}
        isolation = "read_committed" if self._read_committed else "read_uncommitted"
        strategy = chance.choice(("range", "range,roundrobin"))
        self._consumer = ck.Consumer({
            **COMMON, **run.login.confluent, "group.id": group, "enable.auto.commit": False,
            "isolation.level": isolation, "auto.offset.reset": "earliest" if resets else "error",
            "session.timeout.ms": 6_000,
            "partition.assignment.strategy": strategy, "topic.metadata.refresh.interval.ms": 5_000,
        })  # fmt: skip
        on_assign = self._moved if resets else self._assigned
        moved = {"on_assign": on_assign, "on_revoke": self._moved, "on_lost": self._moved}
        self._consumer.subscribe([run.partitions[0].topic], **moved)

    def poll(self) -> tuple[Read, ...]:
        """The records of a poll. Rebalances happen meanwhile, and are recorded before the records."""
        invocation = self.run.recorder.invoke(self.process, Poll(read_committed=self._read_committed))
        messages = [one for one in self._consumer.consume(RECORDS_MAX, 0.3) if one.error() is None]
        reads = tuple(map(_read_of, messages))
        self.run.recorder.complete(invocation, Outcome.OK, Poll(reads, self._read_committed))
        self.run.done["reads"] += len(reads)
        self._next |= {one.partition: one.offset + 1 for one in reads}
        self._epochs |= {read.partition: _epoch_of(one) for read, one in zip(reads, messages, strict=True)}
        return reads

    def commit(self) -> None:
        """Commit what was read. Only an error that the coordinator has answered with means that nothing was stored."""
        if not self._next:
            return
        self._store(self.process, lambda offsets: self._consumer.commit(offsets=offsets, asynchronous=False))

    def commit_in(self, sending: Sending) -> bool:
        """Commit what was read in a transaction. False: the transaction must be aborted."""
        metadata, producer = self._consumer.consumer_group_metadata(), sending.producer
        return self._store(
            sending.process, lambda offsets: producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)
        )

    def _store(self, process: str, call: Callable[[list[ck.TopicPartition]], object]) -> bool:
        offsets, self._next = dict(self._next), {}
        invocation = self.run.recorder.invoke(process, CommitOffsets(self._group, tuple(offsets.items())))
        try:
            call([ck.TopicPartition(*tp, one, leader_epoch=self._epochs[tp]) for tp, one in offsets.items()])
        except ck.KafkaException as failure:
            error = failure.args[0]
            outcome = Outcome.FAIL if error.code() in REJECTIONS else Outcome.UNKNOWN
            self.run.recorder.complete(invocation, outcome, info=str(error))
            return False
        self.run.recorder.complete(invocation, Outcome.OK)
        self.run.done["offsets"] += len(offsets)
        return True

    def end(self, *, leaves: bool) -> None:
        """Leave the group, or be dropped: its session ends some time later.

        The partitions are given back before `close`. A callback of a rebalance inside of it can wait for an answer of
        librdkafka's main thread for ever, with Python's lock held: seen once, after 28 minutes of faults.
        """
        if leaves:
            self._consumer.unsubscribe()
            for _ in range(GIVE_BACK_POLLS):
                if not self._consumer.assignment():
                    break
                self._consumer.poll(0.1)
            self._consumer.close()

    def _assigned(self, consumer: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        """Raises KafkaException if the committed offsets are not known."""
        self._moved(consumer, partitions)
        for one in (committed := consumer.committed(partitions, TIMEOUT_S)):
            if one.error is not None:
                raise ck.KafkaException(one.error)
            if one.offset < 0:
                one.offset = ck.OFFSET_BEGINNING
        consumer.assign(committed)

    def _moved(self, _: ck.Consumer, partitions: list[ck.TopicPartition]) -> None:
        moved = [TopicPartition(one.topic, one.partition) for one in partitions]
        for tp in moved:
            self._next.pop(tp, None)
        self.run.note(self.process, Position(tuple((tp, None) for tp in moved), "rebalance"))


def _read_of(message: Any) -> Read:
    key, value = message.key(), message.value() or b""
    place = TopicPartition(message.topic(), message.partition())
    return Read(place, message.offset(), None if key is None else key.decode(), name_in(value))


def _epoch_of(message: Any) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else int(epoch)
