"""Blocking clients whose event loop ends early: the error is that of the cause, and nothing waits for the loop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from minikafka.client.blocking import Consumer, Producer
from minikafka.protocol.errors import KafkaError

ENDS_S = 60
PROGRAM = """
from minikafka.client.blocking import Producer

def partitioner(*arguments, **named):
    raise {error}

with Producer("{address}", partitioner=partitioner) as producer:
    producer.send("t", b"x")
    producer.flush()
"""


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


@pytest.mark.parametrize("error", ["SystemExit(3)", "KeyboardInterrupt"])
def test_a_callback_that_ends_the_loop_ends_the_program(minikafka_bootstrap: str, error: str) -> None:
    program = PROGRAM.format(error=error, address=minikafka_bootstrap)
    ended = subprocess.run([sys.executable, "-c", program], timeout=ENDS_S, capture_output=True, text=True)
    assert ended.returncode != 0
