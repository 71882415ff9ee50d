"""A blocking consumer that is never closed: when the interpreter ends, its listener is called, and may commit."""

from __future__ import annotations

import subprocess
import sys

import pytest

from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin, Producer

PROGRAM = """
import sys
from minikafka.client.blocking import Consumer, Listener

bootstrap, topic, what = sys.argv[1:]

class Committing(Listener):
    def on_partitions_revoked(self, partitions):
        print("revoked", *partitions, flush=True)
        if what == "raises":
            raise KeyError("of the listener")
        consumer.commit({one: 2 for one in partitions})

consumer = Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest", enable_auto_commit=False)
consumer.__enter__()
consumer.subscribe([topic], listener=Committing())
for record in consumer:
    if record.offset == 1:
        break
"""


IN_A_DAEMON_THREAD = """
import sys, threading
from minikafka.client.blocking import Consumer

bootstrap, topic, read = sys.argv[1:]
begun = threading.Event()

def run():
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        if read == "for":
            for record in consumer:
                begun.set()
        while True:
            if consumer.poll(60_000):
                begun.set()

threading.Thread(target=run, daemon=True).start()
begun.wait()
"""


@pytest.mark.parametrize("read", ["for", "poll"])
def test_a_daemon_thread_that_reads_ends_with_the_interpreter(minikafka_bootstrap: str, topic: str, read: str) -> None:
    """Without a traceback. Its group is left."""
    with Producer(minikafka_bootstrap) as producer:
        producer.send(topic, b"x")
    command = [sys.executable, "-c", IN_A_DAEMON_THREAD, minikafka_bootstrap, topic, read]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "client never closed: Consumer\n")
    with Admin(minikafka_bootstrap) as admin:
        assert admin.describe_group(topic).members == []


@pytest.mark.parametrize("what", ["commits", "raises"])
def test_its_listener_is_called_when_the_interpreter_ends(minikafka_bootstrap: str, topic: str, what: str) -> None:
    with Producer(minikafka_bootstrap) as producer:
        for _ in range(4):
            producer.send(topic, b"x")
    command = [sys.executable, "-c", PROGRAM, minikafka_bootstrap, topic, what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines() == [f"revoked {TopicPartition(topic, 0)}"], done.stderr
    assert done.returncode == 0
    assert "client never closed: Consumer" in done.stderr
    assert ("client failed when the program ended: Consumer" in done.stderr) is (what == "raises")
    assert ("KeyError: 'of the listener'" in done.stderr) is (what == "raises")
    with Admin(minikafka_bootstrap) as admin:
        committed = admin.list_group_offsets(topic)
        assert [one.offset for one in committed.values()] == ([] if what == "raises" else [2])
        assert admin.describe_group(topic).members == []
