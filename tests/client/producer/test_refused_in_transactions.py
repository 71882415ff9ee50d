"""A record that is refused fails its transaction, as with Kafka's client: it is not committed without the record.

A blocking `send` has returned before its record is refused; of an async one the caller has seen the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.transaction_broker import TransactionBroker

from minikafka.client import Producer, blocking
from minikafka.client.producer.transaction_state import (
    AbortableTransactionError,
    FatalTransactionError,
    TransactionState,
)
from minikafka.protocol.errors import (
    ClusterAuthorizationFailedError,
    InvalidTopicError,
    KafkaError,
    MessageTooLargeError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

Record = dict[str, Any]
GOOD: Record = {"topic": "t", "value": b"good"}
LATE: Record = {"topic": "t", "value": b"late", "key": b"no"}
REFUSED: dict[str, tuple[Record, type[Exception]]] = {
    "too large": ({"topic": "t", "value": bytes(2 << 20)}, MessageTooLargeError),
    "no such topic": ({"topic": "u", "value": b""}, UnknownTopicOrPartitionError),
    "no such partition": ({"topic": "t", "value": b"", "partition": 7}, ValueError),
    "a partitioner that raises": (LATE, LookupError),
    "a partitioner that returns nonsense": ({"topic": "t", "value": b"", "key": b"nonsense"}, TypeError),
}
PLACES: dict[str, Callable[[Record], list[Record]]] = {
    "alone": lambda one: [one],
    "first": lambda one: [one, GOOD],
    "last": lambda one: [GOOD, one],
    "amid": lambda one: [GOOD, one, GOOD],
    "twice": lambda one: [GOOD, one, one],
}
AT_THE_CALL = ("too large", "no such topic", "no such partition")
"""Those that fail a transaction also where `send` raises them; the errors of a partitioner do not."""
versions = pytest.mark.parametrize("version", [1, 2])


def partitioner(topic: str, key: bytes | None, value: bytes | None, count: int) -> Any:
    if key == b"no":
        raise LookupError("no")
    return "nonsense" if key == b"nonsense" else 0


def options_of(broker: TransactionBroker, what: str = "no such topic") -> dict[str, Any]:
    """Only a topic that does not exist is waited for; what else takes a moment has time on a busy machine."""
    limit_ms = 400 if what == "no such topic" else 20_000
    seams = broker.network.seams()
    return {"transactional_id": "x", "max_block_ms": limit_ms, "partitioner": partitioner, "seams": seams}


def producer_of(broker: TransactionBroker, what: str = "") -> blocking.Producer:
    return blocking.Producer("a:1", **options_of(broker, what))


def send_all(producer: blocking.Producer, records: list[Record]) -> None:
    for one in records:
        producer.send(**one)


def reasons(error: BaseException) -> set[type[BaseException]]:
    """The types of the causes of an error."""
    return set() if error.__cause__ is None else {type(error.__cause__)} | reasons(error.__cause__)


@versions
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("what", REFUSED)
def test_the_block_aborts_the_transaction_and_the_next_one_commits(what: str, place: str, version: int) -> None:
    broker, (record, reason) = TransactionBroker(version=version), REFUSED[what]
    with producer_of(broker, what) as producer:
        with pytest.raises(AbortableTransactionError) as raised, producer.transaction():
            send_all(producer, PLACES[place](record))
        assert reason in reasons(raised.value)
        assert True not in broker.ends
        assert not broker.is_open
        with producer.transaction():
            producer.send(**GOOD)
    assert broker.ends[-1:] == [True]


@pytest.mark.parametrize("what", REFUSED)
def test_neither_are_the_offsets_of_its_input(what: str) -> None:
    broker = TransactionBroker()
    with producer_of(broker, what) as producer:
        producer.begin()
        producer.send(**REFUSED[what][0])
        try:
            producer.send_offsets_to_transaction({("t", 0): 5}, "group")
        except AbortableTransactionError:
            pass  # The record was refused before.
        with pytest.raises(AbortableTransactionError):
            producer.commit()
        producer.abort()
    assert True not in broker.ends


@pytest.mark.parametrize("what", REFUSED)
def test_an_application_that_looked_at_the_error_cannot_commit_either(what: str) -> None:
    broker, (record, reason) = TransactionBroker(), REFUSED[what]
    with producer_of(broker, what) as producer:
        producer.begin()
        with pytest.raises(reason):
            producer.send(**record).result()
        with pytest.raises(AbortableTransactionError):
            producer.send(**GOOD)
        with pytest.raises(AbortableTransactionError):
            producer.commit()
        producer.abort()


def test_what_send_raises_itself_does_not_touch_the_transaction() -> None:
    broker = TransactionBroker()
    with producer_of(broker) as producer, producer.transaction():
        producer.send(**GOOD)
        with pytest.raises(TypeError):
            producer.send("t", object())
    assert broker.ends == [True]


def test_a_commit_of_which_the_coordinator_may_know_goes_on() -> None:
    state = TransactionState("x", timeout_ms=60_000, now=lambda: 0.0)
    state.begin(version2=True)
    state.commit()
    state.ending = True
    state.refused(KafkaError("sent by another thread meanwhile"))
    state.check_committing()
    state.ended()
    state.refused(KafkaError("sent by another thread afterwards"))
    state.begin(version2=True)
    state.check_open()


@versions
@pytest.mark.anyio
@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("what", REFUSED)
async def test_the_error_of_an_async_send_fails_the_transaction(what: str, version: int, *, many: bool) -> None:
    broker, (record, reason) = TransactionBroker(version=version), REFUSED[what]
    if many:
        record = {name: one for name, one in record.items() if name not in ("value", "key")} | {
            "values": [record["value"]],
            "keys": [record.get("key")],
        }
    async with Producer("a:1", **options_of(broker, what)) as producer:
        await producer.begin()
        await producer.send(**GOOD)
        with pytest.raises(reason):
            await (producer.send_many if many else producer.send)(**record)
        if what in AT_THE_CALL:
            with pytest.raises(AbortableTransactionError) as raised:
                await producer.send(**GOOD)
            assert reason in reasons(raised.value)
            with pytest.raises(AbortableTransactionError):
                await producer.commit()
            await producer.abort()
            await producer.begin()
            await producer.send(**GOOD)
        await producer.commit()
    assert broker.ends.count(True) == 1  # of the transaction that was begun again, or of the one that goes on


@pytest.mark.anyio
async def test_looking_for_partitions_in_vain_does_not_touch_the_transaction() -> None:
    broker = TransactionBroker()
    async with Producer("a:1", **options_of(broker)) as producer, producer.transaction():
        await producer.send(**GOOD)
        with pytest.raises(UnknownTopicOrPartitionError):
            await producer.partitions_for("u")
    assert broker.ends == [True]


@pytest.mark.parametrize("error", [ClusterAuthorizationFailedError("no"), UnsupportedVersionError("no")])
def test_what_no_transaction_can_overcome_ends_the_producer(error: KafkaError) -> None:
    state = TransactionState("x", timeout_ms=60_000, now=lambda: 0.0)
    state.begin(version2=True)
    state.refused(error)
    with pytest.raises(FatalTransactionError):
        state.abort()


@pytest.mark.anyio
async def test_an_impossible_name_of_a_topic_fails_the_transaction() -> None:
    async with Producer("a:1", **options_of(TransactionBroker(), "")) as producer:
        await producer.begin()
        with pytest.raises(InvalidTopicError):
            await producer.send("a b", b"")
        with pytest.raises(AbortableTransactionError):
            await producer.commit()


def test_an_impossible_name_of_a_topic_fails_the_transaction_of_a_blocking_producer() -> None:
    with producer_of(TransactionBroker()) as producer:
        producer.begin()
        with pytest.raises(InvalidTopicError):
            producer.send("a b", b"")
        with pytest.raises(AbortableTransactionError):
            producer.commit()
