"""Transactional ids whose epochs are almost used up: no order of requests and time-outs meets an assertion."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from minikafka.broker.coordinator.decision import Decision, Now
from minikafka.broker.coordinator.transactions.add_partitions import add_partitions
from minikafka.broker.coordinator.transactions.end_transaction import (
    abort_timed_out,
    complete_transaction,
    end_transaction,
)
from minikafka.broker.coordinator.transactions.init_producer import (
    ProducerIdentity,
    ProducerIdNeeded,
    init_producer_id,
)
from minikafka.broker.coordinator.transactions.transaction import EPOCH_MAX, Transaction
from minikafka.broker.coordinator.transactions.transaction_settings import TransactionSettings
from minikafka.broker.coordinator.transactions.transaction_shard import TIMEOUTS, TransactionShard
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.names import TopicPartition
from minikafka.protocol.settings.registry import NODE_SETTINGS

ID, TIMEOUT_MS = "t", 1_000
EPOCHS = range(EPOCH_MAX - 3, EPOCH_MAX)
STEPS = ["new", "continue", "add", "commit", "abort", "time out", "complete"]


class Coordinator:
    """A shard with one transactional id, and its producer.

    Attributes:
        shard: The state.
        producer: What the last answer to the producer was.
    """

    def __init__(self, epoch: int, version: int) -> None:
        settings = TransactionSettings.of({name: one.kafkas_default for name, one in NODE_SETTINGS.items()})
        self.shard = TransactionShard(settings, 0, 0, lambda: version, lambda *_: None, self._abort)
        self.shard.transactions[ID] = Transaction(7, TIMEOUT_MS, producer_epoch=epoch)
        self.producer = ProducerIdentity(7, epoch)
        self._version = version
        self._ids = iter(range(100, 200))
        self._now_ms = 0

    def carry_out(self, decision: Decision) -> Any:
        """Apply the records; returns the reply, if there is one."""
        for key, value in decision.records:
            self.shard.apply(key, value, 0, -1)
        return decision.replies[0][1] if decision.replies else None

    def step(self, name: str) -> None:
        self._now_ms += 1
        now, current = Now(self._now_ms, self._now_ms), self.shard.transactions[ID]
        if name in ("new", "continue"):
            self.init(None if name == "new" else self.producer)
        elif name in ("commit", "abort"):
            self.end(now, commit=name == "commit")
        elif name == "add":
            added = frozenset([TopicPartition("a", 0)])
            asked = {"transactional_id": ID, "producer": self.producer, "partitions": added}
            self.carry_out(add_partitions(self.shard, now, None, **asked, client_version=self._version))
        elif name == "complete" and current.is_prepared:
            self.carry_out(complete_transaction(self.shard, now, None, transactional_id=ID, prepared=current))
        elif name == "time out":
            self._now_ms += 2 * TIMEOUT_MS
            for decision in self.shard.expire(TIMEOUTS, Now(self._now_ms, self._now_ms)):
                self.carry_out(decision)

    def _abort(self, shard: TransactionShard, key: str) -> None:
        now = Now(self._now_ms, self._now_ms)
        reply = self.carry_out(abort_timed_out(shard, now, None, transactional_id=key, new_producer_id=None))
        assert isinstance(reply, ProducerIdNeeded)
        self.carry_out(abort_timed_out(shard, now, None, transactional_id=key, new_producer_id=next(self._ids)))

    def init(self, expected: ProducerIdentity | None) -> ErrorCode:
        """InitProducerId; the producer goes on with the answer."""
        now = Now(self._now_ms, self._now_ms)
        asked = {"transactional_id": ID, "timeout_ms": TIMEOUT_MS, "expected": expected}
        reply = self.carry_out(init_producer_id(self.shard, now, None, **asked, new_producer_id=None))
        if isinstance(reply, ProducerIdNeeded):
            reply = self.carry_out(init_producer_id(self.shard, now, None, **asked, new_producer_id=next(self._ids)))
        return self._learn(reply)

    def end(self, now: Now, *, commit: bool) -> None:
        asked = {"transactional_id": ID, "producer": self.producer, "commit": commit, "client_version": self._version}
        reply = self.carry_out(end_transaction(self.shard, now, None, **asked, new_producer_id=None))
        if isinstance(reply, ProducerIdNeeded):
            reply = self.carry_out(end_transaction(self.shard, now, None, **asked, new_producer_id=next(self._ids)))
        self._learn(reply)

    def _learn(self, reply: ProducerIdentity) -> ErrorCode:
        if not reply.error:
            assert 0 <= reply.epoch < EPOCH_MAX, "the last epoch is for fencing"
            self.producer = reply
        return reply.error


@given(st.sampled_from(EPOCHS), st.sampled_from([0, 1, 2]), st.lists(st.sampled_from(STEPS), max_size=12))
@example(EPOCH_MAX - 1, 2, ["add", "time out", "complete", "continue"])
@example(EPOCH_MAX - 1, 2, ["add", "time out", "complete", "continue", "continue"])
@example(EPOCH_MAX - 1, 2, ["add", "time out", "complete", "abort", "add", "commit"])
@example(EPOCH_MAX - 1, 2, ["add", "new", "complete", "abort", "add", "commit"])
@example(EPOCH_MAX - 1, 2, ["add", "new", "complete", "continue"])
@example(EPOCH_MAX - 1, 2, ["add", "continue", "complete", "continue"])
def test_a_producer_always_gets_a_valid_epoch_or_an_error(epoch: int, version: int, steps: list[str]) -> None:
    coordinator = Coordinator(epoch, version)
    for name in steps:
        coordinator.step(name)
    for name in ("new", "complete", "new", "complete"):
        coordinator.step(name)
    assert coordinator.init(None) == ErrorCode.NONE, "a new producer finally gets through"


def test_the_abort_of_a_transaction_that_timed_out_at_the_last_epoch_gives_a_new_id() -> None:
    coordinator = Coordinator(EPOCH_MAX - 1, 2)
    for name in ("add", "time out", "complete", "abort"):
        coordinator.step(name)
    assert coordinator.producer == ProducerIdentity(100, 0), "as Apache Kafka answers"
    for name in ("add", "commit", "complete"):
        coordinator.step(name)
    assert coordinator.producer == ProducerIdentity(100, 1)


def test_a_producer_whose_last_transaction_timed_out_goes_on_with_a_new_id() -> None:
    coordinator = Coordinator(EPOCH_MAX - 1, 2)
    for name in ("add", "time out", "complete"):
        coordinator.step(name)
    before = coordinator.producer
    assert coordinator.init(before) == ErrorCode.NONE
    first = coordinator.producer
    assert (first.producer_id, first.epoch) == (100, 0)
    assert coordinator.init(before) == ErrorCode.NONE, "its answer was lost, and the request is repeated"
    assert coordinator.producer == first
    assert coordinator.init(ProducerIdentity(7, EPOCH_MAX - 2)) == ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_last_transaction_another_one_aborted_goes_on_with_a_new_id() -> None:
    coordinator = Coordinator(EPOCH_MAX - 1, 2)
    for name in ("add", "new", "complete"):
        coordinator.step(name)
    assert coordinator.shard.transactions[ID].producer_epoch == EPOCH_MAX, "it fences"
    assert coordinator.init(coordinator.producer) == ErrorCode.NONE
    assert (coordinator.producer.producer_id, coordinator.producer.epoch) == (100, 0)
