"""Blocking clients whose event loop ends early, and callbacks on its thread: the error says why, nothing hangs."""

from __future__ import annotations

import subprocess
import sys
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
