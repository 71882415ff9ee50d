"""Requests that wait, on real processes: what they hold back, and what ends them."""

from __future__ import annotations

from typing import Any

import pytest
from support.clusters import ON_KAFKA, Topic
from support.conversation_player import NOTHING, Connection

from minikafka.cli.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 if ON_KAFKA else 300)]
VERSION = 11
SOON_S = 30


def produce(topic: str, acks: int) -> tuple[str, int, dict[str, Any]]:
    """A Produce of one record to partition 0."""
    records = {"name": topic, "partition_data": [{"index": 0, "records": ["a record"]}]}
    return "Produce", VERSION, {"acks": acks, "timeout_ms": 30_000, "topic_data": [records]}


def test_an_acknowledgement_leaves_before_the_next_request_waits(brokers: LocalCluster, name: str) -> None:
    """Of two requests that were read together the second waits for a follower."""
    Topic(brokers, name, [[1, 2, 3]])
    client = Connection((HOST, brokers.nodes[1].port))
    brokers.pause(3)
    client.send_together(produce(name, acks=1), produce(name, acks=-1))
    first = client.receive(SOON_S)
    second = client.receive(0)
    brokers.resume(3)
    client.close()
    assert not isinstance(first, str), first
    assert first[1].responses[0].partition_responses[0].error_code == 0
    assert second == NOTHING, "the first response came with the second"
