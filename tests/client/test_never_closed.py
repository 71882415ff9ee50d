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
