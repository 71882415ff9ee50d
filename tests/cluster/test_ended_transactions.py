"""What the chaos of the Spark sink asks at its end: transactions that are open, being ended, or hang in a partition."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import ended_transactions
from support.batches import encode_batch
from support.ended_transactions import left_open
from support.node import NodeProcess
from support.open_transaction import open_transaction
from support.raw_produce import produce, writable_topics

from minikafka.client.blocking import Producer
from minikafka.protocol.records.record import Record

FIRST = Record(-1, 0, None, b"first")
SETTINGS = {"transaction.partition.verification.enable": "false"}
"""So that a transaction hangs that nobody has begun."""


@pytest.mark.slow
def test_what_is_open_is_found_at_its_coordinator_and_in_its_partitions(tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "node", settings=SETTINGS) as node:
        writable_topics(node, {"ended": {}, "open": {}, "hanging": {}}, FIRST)
        with Producer(node.bootstrap, transactional_id="ended") as producer, producer.transaction():
            producer.send("ended", b"value")
        assert left_open(node.bootstrap, ["ended", "open", "hanging"], 60) == []
        open_transaction(node.bootstrap, "open")
        one, other = left_open(node.bootstrap, ["ended", "open", "hanging"], 60)
        assert one == "open: Ongoing"
        assert other.startswith("open-0: producer ")
        batch = encode_batch([FIRST], producer_id=999, producer_epoch=0, base_sequence=0, transactional=True)
        assert produce(node, "hanging", batch, "nobody") == 0
        found = left_open(node.bootstrap, ["hanging"], 60)
        assert found == ["open: Ongoing", "hanging-0: producer 999 since offset 1"]


@pytest.mark.slow
def test_an_end_is_waited_for_but_not_for_ever(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers = [["a: PrepareCommit", "t-0: producer 1 since offset 0"], ["a: PrepareCommit"], []]
    monkeypatch.setattr(ended_transactions, "unended", lambda *_: answers[0] if len(answers) == 1 else answers.pop(0))
    with NodeProcess(tmp_path / "node") as node:
        assert left_open(node.bootstrap, ["t"], 60) == []
        answers[:] = [["a: PrepareAbort"]]
        assert left_open(node.bootstrap, ["t"], 0.1) == ["a: PrepareAbort"]
