"""Stories about transactions in which something comes too late: an EndTxn, a record, the log of the coordinator.

`test_transaction_stories.py` has what dies at each step. Here nothing must be committed, or be taken for committed,
that is not one transaction.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

from minikafka.broker.coordinator.transactions.transaction import Transaction, TransactionState
from minikafka.client.connections.connection import open_connection
from minikafka.client.connections.seams import Seams
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.end_txn import EndTxnRequest
from simulation.stepwise import StepwiseProducer
from simulation.story import Story, Tell
from simulation.test_transaction_stories import ID, STATE, TOPIC, begin_story, committed, coordinator, state_of


def known(story: Story) -> Transaction:
    """The transaction as its coordinator knows it."""
    states = story.node(coordinator(story)).parts.coordinators.transactions.coordinator.runtime.states()
    return next(shard.transactions[ID] for shard in states if ID in shard.transactions)


def ask(story: Story, node_id: int, request: Any) -> Any:
    """Send one request to a node; returns the response."""

    async def program(seams: Seams) -> Any:
        async with trio.open_nursery() as nursery:
            connection = await open_connection(
                f"node-{node_id}", 9092, client_id="late", seams=seams, task_group=nursery, timeout_ms=5000
            )
            response = await connection.request(request, timeout_ms=5000)
            connection.close()
            nursery.cancel_scope.cancel()
        return response

    return story.do(program)


def send(producer: StepwiseProducer, value: str, *partitions: int) -> None:
    for partition in partitions or (0, 1):
        producer.do("send", value=value.encode(), partition=partition)


def test_nothing_is_marked_before_the_outcome_is_committed(tell: Tell) -> None:
    """The coordinator reaches the leaders, but its followers do not reach it; and then it is gone.

    The next coordinator does not know the outcome. The producer has gone, too, so that the transaction is aborted.
    """
    story = begin_story(tell)
    producer = StepwiseProducer(story, TOPIC, ID, host="client of a producer", transaction_timeout_ms=20_000)
    producer.do("begin")
    send(producer, "first")
    producer.do("commit")
    story.until(lambda: state_of(story) == TransactionState.COMPLETE_COMMIT.title)
    story.prefer(STATE, 3, 1, 2)
    producer.do("begin")
    send(producer, "second")
    for node_id in (1, 2):
        story.cluster.network.cut(f"node-{node_id}", "node-3")
    story.wait(1)  # Fetches that had arrived are answered.
    producer.start("commit")
    story.until(lambda: state_of(story) == TransactionState.PREPARE_COMMIT.title)
    story.wait(3)
    replica = story.replica(3, STATE)
    assert replica.high_watermark < replica.log.end_offset, "the outcome should not be committed"
    assert [story.replica(i, TOPIC, i - 1).log.end_offset for i in (1, 2)] == [3, 3], "a marker is written too early"
    story.world.kill(story.cluster.clients["program-2"])
    story.crash(3)
    story.until(lambda: coordinator(story) in (1, 2))
    story.cluster.network.heal_all()
    story.until(lambda: state_of(story) == TransactionState.COMPLETE_ABORT.title, within_s=90)
    story.start()
    assert committed(story) == [["first"]] * 2


def test_a_late_end_does_not_end_the_next_transaction(tell: Tell) -> None:
    """The first EndTxn was sent twice, and one of the two arrives when the next transaction is open (KAFKA-17754)."""
    story = begin_story(tell)
    producer = StepwiseProducer(story, TOPIC, ID)
    producer.do("begin")
    send(producer, "first")
    before = known(story)
    producer.do("commit")
    producer.do("begin")
    send(producer, "second")
    late = EndTxnRequest(
        transactional_id=ID, producer_id=before.producer_id, producer_epoch=before.producer_epoch, committed=True
    )
    assert ask(story, coordinator(story), late).error_code == ErrorCode.PRODUCER_FENCED
    producer.do("abort")
    assert committed(story) == [["first"]] * 2


def go_on(producer: StepwiseProducer) -> None:
    send(producer, "half", 1)
    producer.do("commit")


def test_a_transaction_that_takes_too_long_is_aborted_as_a_whole(tell: Tell) -> None:
    """The coordinator has aborted the first half; the second is refused, or is a part of no transaction."""
    story = begin_story(tell)
    producer = StepwiseProducer(story, TOPIC, ID, transaction_timeout_ms=5000)
    producer.do("begin")
    send(producer, "half", 0)
    story.until(lambda: state_of(story) == TransactionState.COMPLETE_ABORT.title)
    with pytest.raises(KafkaError):
        go_on(producer)
    assert committed(story) == [[], []]
