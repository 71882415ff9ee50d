"""Finds transactions that have not ended: by their coordinators, and by the leaders of partitions."""

from __future__ import annotations

import time
from collections.abc import Iterable

from minikafka.client import TopicPartition
from minikafka.client.blocking import Admin
from minikafka.client.connections.cluster_metadata import Topic

POLL_S = 0.05
ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def unended(admin: Admin, topics: Iterable[str]) -> list[str]:
    """Each transaction that is open or being ended, and each that is open in a partition, which may hang there."""
    states = [f"{one.transactional_id}: {one.state}" for one in admin.list_transactions() if one.state not in ENDED]
    described = {name: topic for name, topic in admin.describe_topics([*topics]).items() if isinstance(topic, Topic)}
    places = [
        f"{topic}-{index}: producer {producer.producer_id} since offset {producer.transaction_start_offset}"
        for topic, one in described.items()
        for index in range(len(one.partitions))
        for producer in admin.describe_producers(TopicPartition(topic, index))
        if producer.transaction_start_offset is not None
    ]
    return sorted(states) + sorted(places)


def left_open(bootstrap: str, topics: Iterable[str], patience_s: float) -> list[str]:
    """As `unended`, when all outcomes that are decided have reached all partitions, or at last after `patience_s`."""
    deadline = time.monotonic() + patience_s
    names = [*topics]
    with Admin(bootstrap) as admin:
        while (found := unended(admin, names)) and time.monotonic() < deadline:
            if any(one.endswith(": Ongoing") for one in found):
                break
            time.sleep(POLL_S)
        return found


def wait_for_decided(bootstrap: str, patience_s: float) -> None:
    """Waits until the outcomes of all transactions that are decided have reached all partitions."""
    deadline = time.monotonic() + patience_s
    with Admin(bootstrap) as admin:
        while deciding := [one for one in admin.list_transactions() if one.state.startswith("Prepare")]:
            assert time.monotonic() < deadline, f"transactions that do not end: {deciding}"
            time.sleep(POLL_S)
