"""`minikafka top`: rates, lag and leaders, against a node and as pure functions."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import termios

import pytest
from support.command_line import Minikafka, Start, patient_command
from support.node import NodeProcess

from minikafka.cli.commands.top_rows import GroupSample, Sample, details, lines
from minikafka.client import ClusterDescription, TopicPartition
from minikafka.client.connections.cluster_metadata import Broker, Partition, Topic

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
CLUSTER = ClusterDescription("c", 1, [Broker(2, "h", 92, None), Broker(1, "h", 91, None)])
TOPICS = [
    Topic("b", partitions=(Partition(0, 1, 0, (1,), (1,)),)),
    Topic("a", partitions=(Partition(0, 1, 0, (1, 2), (1,)), Partition(1, 2, 0, (2, 1), (2, 1)))),
]


def sample(at_s: float, ends: dict[TopicPartition, int], committed: dict[TopicPartition, int]) -> Sample:
    return Sample(at_s, CLUSTER, 2, TOPICS, ends, {"a": 2048}, [GroupSample("g", "Stable", 3, committed)])


def test_rates_between_two_looks() -> None:
    before = sample(10.0, {A0: 100, A1: 50, B0: 7}, {A0: 90})
    now = sample(12.0, {A0: 140, A1: 60, B0: 3}, {A0: 95, A1: 70})  # b was made anew, and a-1 was truncated
    frame = details(before, now)
    assert [(one["broker"], one["leads"], one["in_sync"], one["records_per_s"]) for one in frame["brokers"]] == [
        (1, 2, 3, 20.0),
        (2, 1, 1, 5.0),
    ]
    assert [(one["topic"], one["records_per_s"], one["under_replicated"]) for one in frame["topics"]] == [
        ("a", 25.0, 1),
        ("b", 0.0, 0),
    ]
    assert frame["groups"] == [{"group": "g", "state": "Stable", "members": 3, "lag": 45, "records_per_s": 2.5}]
    assert lines(frame, rows_max=1) == [
        "cluster c, controller 2, 2 brokers",
        "3 partitions, 1 under-replicated, 0 without leader",
        "",
        "BROKER  ADDRESS  LEADS  IN SYNC  REPLICAS  RECORDS/S",
        "     1  h:91         2        3         3  20",
        "",
        "GROUP  STATE   MEMBERS  LAG  RECORDS/S",
        "g      Stable        3   45  2.5",
        "",
        "TOPIC  PARTITIONS  UNDER-REPLICATED  SIZE     RECORDS/S",
        "a               2                 1  2.0 KiB  25",
    ]


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("keys", [b"q", b"Q", b"x\r\nq"])
def test_q_ends_it_and_the_terminal_is_as_before(node: NodeProcess, keys: bytes) -> None:
    ours, theirs = pty.openpty()
    there = select.poll()
    there.register(ours, select.POLLIN)
    before = termios.tcgetattr(theirs)
    environment = {**os.environ, "MINIKAFKA_BOOTSTRAP_SERVER": node.bootstrap, "TERM": "xterm"}
    command = patient_command(["top", "--interval", "3600"])
    process = subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs)
    shown = b""
    try:
        while b"(q: quit)" not in shown:
            shown += os.read(ours, 4096)
        os.write(ours, keys)
        while process.poll() is None:
            shown += os.read(ours, 4096) if there.poll(50) else b""
        assert process.returncode == 0, shown
        assert termios.tcgetattr(theirs) == before
        assert b"q\r\n" not in shown, "what is typed is not echoed"
    finally:
        process.kill()
        process.wait()
        os.close(ours)
        os.close(theirs)


def test_without_a_terminal_nothing_is_told_of_keys(minikafka: Minikafka) -> None:
    assert "q: quit" not in minikafka("top", "--count", "1").out


def test_the_lag_of_a_group_that_has_committed_nothing_is_not_known() -> None:
    frame = details(None, sample(1.0, {A0: 5}, {}))
    assert [one["lag"] for one in frame["groups"]] == [None]
    assert "g      Stable        3  -    -" in lines(frame, rows_max=1)
    caught_up = details(None, sample(1.0, {A0: 5}, {A0: 5}))
    assert [one["lag"] for one in caught_up["groups"]] == [0]


def test_the_first_look_knows_no_rates() -> None:
    frame = details(None, sample(1.0, {A0: 5}, {A0: 5}))
    assert {one["records_per_s"] for rows in ("brokers", "topics", "groups") for one in frame[rows]} == {None}


def test_lag_and_sizes_of_a_node(minikafka: Minikafka, topic: str) -> None:
    assert minikafka("produce", topic, stdin=b"1\n2\n3\n4\n").code == 0
    reset = ("groups", "reset-offsets", topic, "--topic", topic, "--execute", "--to-offset")
    assert minikafka(*reset, "1").code == 0
    (frame,) = [json.loads(line) for line in minikafka("top", "--count", "1", "--json").lines]
    (group,) = [one for one in frame["groups"] if one["group"] == topic]
    assert (group["state"], group["members"], group["lag"]) == ("Empty", 0, 3)
    (one,) = [one for one in frame["topics"] if one["topic"] == topic]
    assert one["size_bytes"] > 0
    assert "__consumer_offsets" not in [one["topic"] for one in frame["topics"]]
    internal = json.loads(minikafka("top", "--count", "1", "--json", "--internal").out)
    assert "__consumer_offsets" in [one["topic"] for one in internal["topics"]]


@pytest.mark.slow
def test_records_that_are_sent_meanwhile_are_a_rate(minikafka: Minikafka, started: Start, topic: str) -> None:
    watching = started("top", "--interval", "0.1", "--json")
    assert watching.stdout is not None
    assert json.loads(watching.stdout.readline())["topics"] != []
    assert minikafka("produce", topic, stdin=b"1\n2\n").code == 0
    for line in watching.stdout:
        rates = {one["topic"]: one["records_per_s"] for one in json.loads(line)["topics"]}
        if rates[topic]:
            break
    else:
        pytest.fail("the output ended")
