"""`minikafka transactions`, `produce --transactional-id`, and what `dump-log` shows of internal topics."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from support.command_line import Minikafka
from support.fake_network import FakeNetwork
from support.node import NodeProcess
from support.open_transaction import open_transaction
from support.oracle import needs_oracle, shared, tool

from minikafka.cli.commands.dump_log import lines_of
from minikafka.client import Admin, TopicPartition
from minikafka.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from minikafka.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from minikafka.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NOW_MS = 1_700_000_000_000
DECODERS = {"__transaction_state": "--transaction-log-decoder", "__consumer_offsets": "--offsets-decoder"}


def test_lines_are_sent_in_one_transaction(minikafka: Minikafka, topic: str) -> None:
    ran = minikafka("produce", topic, "--transactional-id", topic, stdin=b"one\ntwo\n")
    assert ran.code == 0, ran
    read = ("consume", topic, "--from-beginning", "--isolation-level", "read_committed")
    assert minikafka(*read, "-n", "2").lines == ["one", "two"]
    listed = json.loads(minikafka("transactions", "list", "--json").out)
    assert topic in {one["transactional_id"] for one in listed}
    described = json.loads(minikafka("transactions", "describe", topic, "--json").out)
    assert described["state"] in ("CompleteCommit", "PrepareCommit")
    assert "state:" in minikafka("transactions", "describe", topic).out


def test_nothing_that_hangs_and_nothing_to_elect_as_json(minikafka: Minikafka, node: NodeProcess, topic: str) -> None:
    open_transaction(node.bootstrap, topic)
    assert minikafka("transactions", "find-hanging", topic, "--json").out == "[]\n"
    assert minikafka("elect-leaders", topic, "--json").out == "[]\n"


def test_a_line_that_cannot_be_sent_aborts_the_transaction(minikafka: Minikafka, topic: str) -> None:
    words = ("produce", topic, "--transactional-id", topic, "--key-separator", ":")
    bad = minikafka(*words, stdin=b"a:one\nwithout a key\n")
    assert bad.code == 1
    assert "line 2" in bad.err
    assert minikafka("produce", topic, stdin=b"plain\n").code == 0
    read = ("consume", topic, "--from-beginning", "--isolation-level", "read_committed")
    assert minikafka(*read, "-n", "1").lines == ["plain"]


def test_an_unknown_transactional_id_is_named(minikafka: Minikafka) -> None:
    ran = minikafka("transactions", "describe", "nobody")
    assert ran.code == 1
    assert "'nobody'" in ran.err


def test_a_partition_has_two_parts(minikafka: Minikafka) -> None:
    assert "TOPIC:PARTITION" in minikafka("transactions", "abort", "flights", "--start-offset", "0").err


def test_an_open_transaction_is_not_a_hanging_one(minikafka: Minikafka, topic: str, node: NodeProcess) -> None:
    open_transaction(node.bootstrap, topic)
    ran = minikafka("transactions", "find-hanging", topic, "--older-than", "0")
    assert ran.code == 0, ran
    assert "No hanging transactions in 1 partition." in ran.out
    assert "Ongoing" in minikafka("transactions", "describe", topic).out
    assert topic in minikafka("transactions", "list", "--state", "Ongoing").out
    ran = minikafka("transactions", "abort", f"{topic}:0", "--start-offset", "0")
    assert ran.code == 0, ran
    assert minikafka("transactions", "abort", f"{topic}:0", "--start-offset", "0").code == 1


def test_a_transaction_that_no_coordinator_knows_hangs() -> None:
    network = FakeNetwork({"t": [1]})
    states = [
        ProducerState(
            producer_id=7, producer_epoch=3, last_timestamp=1, coordinator_epoch=2, current_txn_start_offset=5
        ),
        ProducerState(producer_id=8, last_timestamp=1, current_txn_start_offset=-1),
        ProducerState(producer_id=9, last_timestamp=NOW_MS, current_txn_start_offset=6),
    ]
    answer = TopicResponse(name="t", partitions=[PartitionResponse(partition_index=0, active_producers=states)])
    asked: list[Any] = []

    def write(request: WriteTxnMarkersRequest, version: int) -> WriteTxnMarkersResponse:
        asked.append(request.markers[0])
        partition = WritableTxnMarkerPartitionResult(partition_index=0)
        topic = WritableTxnMarkerTopicResult(name="t", partitions=[partition])
        return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])

    network.broker(
        "a",
        1,
        {
            DescribeProducersRequest: lambda request, version: DescribeProducersResponse(topics=[answer]),
            ListTransactionsRequest: lambda request, version: ListTransactionsResponse(),
            WriteTxnMarkersRequest: write,
        },
    )

    async def main() -> None:
        async with Admin("a:1", seams=network.seams(lambda: NOW_MS)) as admin:
            (found,) = await admin.find_hanging_transactions([TopicPartition("t", 0)])
            one = found.producer
            assert (one.producer_id, one.transaction_start_offset) == (7, 5)
            await admin.abort_transaction(found.partition, one.producer_id, one.producer_epoch, one.coordinator_epoch)

    anyio.run(main)
    assert [(one.producer_id, one.producer_epoch, one.coordinator_epoch, one.transaction_result) for one in asked] == [
        (7, 3, 2, False)
    ]


@pytest.mark.slow
@needs_oracle
@pytest.mark.oracle
def test_internal_topics_are_decoded_as_by_kafka() -> None:
    """The lines that Apache Kafka's tool prints of the same files."""
    folder = shared("kafka-logs", "clean")
    for topic, option in DECODERS.items():
        for file in sorted(folder.glob(f"{topic}-*/*.log")):
            theirs = tool("dump-log", option, "--files", file) if file.stat().st_size else ""
            ours = lines_of(file, file.read_bytes(), records=True, as_json=False)
            assert keys_and_values(ours) == keys_and_values(theirs.splitlines())


def keys_and_values(lines: Iterable[str]) -> list[str]:
    """The part of each record's line after its key; a member's subscription and assignment are bytes to us."""
    found = [line.partition(" key: ")[2] for line in lines if " key: " in line]
    return [re.sub(r',"subscription":.*', "", one) for one in found]
