"""Listeners of a blocking consumer: plain methods, called on the application's thread, which may commit there."""

from __future__ import annotations

import concurrent.futures
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from support.no_exceptions import NO_EXCEPTIONS

from minikafka.client import Listener as AsyncListener
from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin, Consumer, Listener, Producer

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"heartbeat_interval_ms": 100, "session_timeout_ms": 60_000},
    "consumer": {"group_protocol": "consumer"},
}
RECORDS = 40


class Committing(Listener):
    """Commits in each callback, and notes the calls and their threads.

    Attributes:
        polls: whether it requests records, which it must not.
    """

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.calls: list[str] = []
        self.threads: set[int] = set()
        self.polls = False
        self.error: BaseException | None = None

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.called("assigned")
        assert set(partitions) <= set(self.consumer.assignment())

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.called("revoked")
        self.consumer.commit()
        if self.error is not None:
            raise self.error

    def called(self, what: str) -> None:
        self.calls.append(what)
        self.threads.add(threading.get_ident())
        if self.polls:
            self.consumer.poll()


@pytest.fixture(params=PROTOCOLS)
def options(request: pytest.FixtureRequest, minikafka_bootstrap: str, topic: str) -> dict[str, Any]:
    """Options of a consumer of the topic, which has records."""
    with Admin(bootstrap_servers=minikafka_bootstrap) as admin, Producer(minikafka_bootstrap) as producer:
        admin.create_topic(topic, partitions=2)
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, partition=number % 2)
        producer.flush()
    return {
        "bootstrap_servers": minikafka_bootstrap, "group_id": topic, "enable_auto_commit": False,
        "auto_offset_reset": "earliest", "default_api_timeout_ms": 20_000, **PROTOCOLS[request.param],
    }  # fmt: skip


def committed(options: dict[str, Any], group: str) -> int:
    with Admin(bootstrap_servers=options["bootstrap_servers"]) as admin:
        return sum(one.offset for one in admin.list_group_offsets(group).values())


@pytest.mark.parametrize("leaves", ["block", "unsubscribe", "iteration"])
def test_a_listener_commits_where_the_application_waits(options: dict[str, Any], topic: str, leaves: str) -> None:
    with Consumer(**options) as consumer:
        listener = Committing(consumer)
        consumer.subscribe([topic], listener=listener)
        if leaves == "iteration":
            for number, _ in enumerate(consumer, 1):
                if number == RECORDS:
                    break
        else:
            taken = 0
            while taken < RECORDS:
                taken += len(consumer.poll(20_000))
            consumer.poll()
        if leaves == "unsubscribe":
            consumer.unsubscribe()
            assert listener.calls[-1] == "revoked"
    assert listener.calls == ["assigned", "revoked"]
    assert listener.threads == {threading.get_ident()}
    assert committed(options, topic) == RECORDS


def test_a_block_that_is_left_by_an_exception_commits_what_was_processed(options: dict[str, Any], topic: str) -> None:
    def crash() -> None:
        with Consumer(**options) as consumer:
            consumer.subscribe([topic], listener=Committing(consumer))
            for number, _ in enumerate(consumer):
                if number == 25:
                    raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        crash()
    assert committed(options, topic) == 25


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_what_a_callback_raises_leaves_the_block(
    options: dict[str, Any], topic: str, error: type[BaseException]
) -> None:
    consumer = Consumer(**options)

    def leave() -> None:
        with consumer:
            listener = Committing(consumer)
            consumer.subscribe([topic], listener=listener)
            consumer.poll(20_000)
            listener.error = error()

    with pytest.raises(error):
        leave()
    with pytest.raises(RuntimeError, match="closed"):
        consumer.poll()


@pytest.mark.parametrize("error", [*NO_EXCEPTIONS, concurrent.futures.CancelledError()], ids=repr)
def test_what_is_no_exception_comes_out_of_the_call_and_the_consumer_goes_on(
    options: dict[str, Any], topic: str, error: BaseException
) -> None:
    class Raising(Committing):
        def called(self, what: str) -> None:
            super().called(what)
            raise error

    with Consumer(**options) as consumer:
        listener = Raising(consumer)
        consumer.subscribe([topic], listener=listener)
        with pytest.raises(type(error)) as raised:
            consumer.poll(20_000)
        assert raised.value is error
        assert consumer.poll(20_000)
        with pytest.raises(type(error)) as raised:
            consumer.unsubscribe()
        assert raised.value is error
        consumer.unsubscribe()
        consumer.subscribe([topic], listener=Listener())
        assert consumer.poll(20_000)
    assert listener.calls == ["assigned", "revoked"]


def test_what_is_no_exception_of_a_callback_in_the_loop_ends_no_loop(options: dict[str, Any], topic: str) -> None:
    mine = BaseException("mine")

    class Raising(AsyncListener):
        async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            raise mine

    with Consumer(**options) as consumer:
        consumer.subscribe([topic], listener=Raising())
        with pytest.raises(BaseException, match="mine") as raised:
            consumer.poll(20_000)
        assert raised.value is mine
        assert consumer.poll(20_000)


def test_a_callback_that_requests_records_is_told_so(options: dict[str, Any], topic: str) -> None:
    with Consumer(**options) as consumer:
        listener = Committing(consumer)
        listener.polls = True
        consumer.subscribe([topic], listener=listener)
        with pytest.raises(RuntimeError, match="must not request records"):
            consumer.poll(20_000)
        listener.polls = False
        assert consumer.poll(20_000)
