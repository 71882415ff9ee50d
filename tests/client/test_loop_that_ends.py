"""Blocking clients whose event loop ends early, and callbacks on its thread: the error says why, nothing hangs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from minikafka.client.blocking import Consumer, Producer
from minikafka.client.records import RecordMetadata
from minikafka.protocol.errors import KafkaError

ENDS_S = 60
TIMEOUT_MS = 30_000
PROGRAM = """
from minikafka.client.blocking import Consumer, Producer

def callback(*arguments, **named):
    raise {error}

with Producer("{address}", partitioner={partitioner}) as producer:
    producer.send("ending", b"x", on_delivery={on_delivery})
    producer.flush()
with Consumer("ending", bootstrap_servers="{address}", auto_offset_reset="earliest",
              value_deserializer={deserializer}) as consumer:
    for record in consumer:
        break
"""
PLACES = ("partitioner", "on_delivery", "deserializer")


@pytest.mark.parametrize(
    "client",
    [
        lambda: Producer("127.0.0.1:1", socket_connection_setup_timeout_ms=300),
        lambda: Consumer("t", bootstrap_servers="127.0.0.1:1", socket_connection_setup_timeout_ms=300),
    ],
    ids=["producer", "consumer"],
)
def test_a_client_that_cannot_be_opened_raises_why(client: Callable[[], Producer | Consumer]) -> None:
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"), client():
        pass


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("error", "codes"), [("SystemExit(3)", {3}), ("KeyboardInterrupt", {130, -2})])
def test_a_callback_that_ends_the_loop_ends_the_program(
    minikafka_bootstrap: str, place: str, error: str, codes: set[int]
) -> None:
    given = dict.fromkeys(PLACES, "None") | {place: "callback"}
    program = PROGRAM.format(error=error, address=minikafka_bootstrap, **given)
    ended = subprocess.run([sys.executable, "-c", program], timeout=ENDS_S, capture_output=True, text=True)
    assert ended.returncode in codes, ended.stderr


def by_flush(producer: Producer, deliver: Callable[[], None]) -> None:
    deliver()
    producer.flush()


def by_the_next_call(producer: Producer, deliver: Callable[[], None]) -> None:
    deliver()
    while not producer._thread._interruptions:  # type: ignore[union-attr]
        threading.Event().wait(0.01)
    producer.partitions_for("interrupted")


def by_the_end_of_the_block(producer: Producer, deliver: Callable[[], None]) -> None:
    deliver()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("raised", [by_flush, by_the_next_call, by_the_end_of_the_block])
def test_what_a_callback_raises_to_end_the_program_is_raised_in_the_application_and_the_client_goes_on(
    minikafka_bootstrap: str, raised: Callable[..., None], error: BaseException
) -> None:
    def interrupt(metadata: RecordMetadata | None, failure: Exception | None) -> None:
        raise error

    with Producer(minikafka_bootstrap) as other:
        with pytest.raises(type(error)) as caught, Producer(minikafka_bootstrap) as producer:  # noqa: PT012
            try:
                raised(producer, lambda: producer.send("interrupted", b"1", on_delivery=interrupt))
            except type(error):
                assert producer.send("interrupted", b"2").result(TIMEOUT_MS).offset >= 0
                raise
        assert caught.value is error
        assert other.send("interrupted", b"3").result(TIMEOUT_MS)


@pytest.mark.timeout(60)
def test_a_callback_may_send(minikafka_bootstrap: str) -> None:
    delivered: list[RecordMetadata | None] = []

    def send_another(metadata: RecordMetadata | None, error: Exception | None) -> None:
        producer.send("resent", b"2", on_delivery=lambda metadata, error: delivered.append(metadata))

    with Producer(minikafka_bootstrap) as producer:
        producer.send("resent", b"1", on_delivery=send_another).result(TIMEOUT_MS)
    assert [None if one is None else one.offset for one in delivered] == [1]


@pytest.mark.parametrize("wait", ["flush", "result", "partitions_for"])
def test_a_callback_that_waits_for_its_own_thread_is_refused(minikafka_bootstrap: str, wait: str) -> None:
    refused: list[str] = []

    def call(metadata: RecordMetadata | None, error: Exception | None) -> None:
        calls: dict[str, Callable[[], object]] = {
            "flush": producer.flush,
            "result": lambda: producer.send("resent", b"2").result(),
            "partitions_for": lambda: producer.partitions_for("resent"),
        }
        try:
            calls[wait]()
        except RuntimeError as failure:
            refused.append(str(failure))

    with Producer(minikafka_bootstrap) as producer:
        producer.send("resent", b"1", on_delivery=call).result(TIMEOUT_MS)
        assert producer.send("resent", b"3").result(TIMEOUT_MS)
    assert [one for one in refused if "callbacks" in one] == refused != []
