"""Signals that come again and again, at random moments: the program ends, and what was delivered is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import random, signal, sys
from minikafka.client.blocking import Consumer, Producer

bootstrap, topic, kind, seed = sys.argv[1:]
dice, handled = random.Random(seed), 0

class Late(Exception):
    pass

def handle(*_):
    global handled
    handled += 1
    if kind == "sends":
        producer.send(topic, b"h")
    if kind == "flushes":
        producer.flush()
    signal.setitimer(signal.ITIMER_REAL, dice.uniform(0.0001, 0.003))
    if kind == "raises":
        raise Late

def storm():
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    try:
        while handled < 300:
            try:
                producer.send(topic, b"x")
                producer.send_and_wait(topic, b"y")
                consumer.poll(0)
                consumer.commit({(topic, 0): 1})
            except Late:
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)

sys.unraisablehook = lambda _: None  # Python drops what is raised within a `__del__`.
signal.signal(signal.SIGALRM, handle)
with Producer(bootstrap, linger_ms=0) as producer, Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer:
    consumer.assign([(topic, 0)])
    while handled < 300:
        try:
            storm()
        except Late:
            pass
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    producer.flush()
    offset = producer.send_and_wait(topic, b"last", partition=0).offset
    consumer.seek((topic, 0), offset)
    found = [(one.offset, one.value) for one in consumer.poll(20_000)]
    assert found == [(offset, b"last")], (found, offset)
print("ended")
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["raises", "sends", "flushes"])
@pytest.mark.parametrize("seed", range(2))
def test_a_program_gets_through_a_storm_of_signals(minikafka_bootstrap: str, topic: str, kind: str, seed: int) -> None:
    given = [sys.executable, "-c", PROGRAM, minikafka_bootstrap, topic, kind, str(seed)]
    ended = subprocess.run(given, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("ended\n", "")
