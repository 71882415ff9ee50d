"""Kafka's `kafka-verifiable-consumer`, by which its system tests judge groups, as a member with our broker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
from support.group_members import fill
from support.oracle import needs_oracle, tool

from minikafka.client import Admin

pytestmark = [pytest.mark.anyio, pytest.mark.oracle, pytest.mark.timeout(120), needs_oracle]
PARTITIONS, RECORDS = 3, 300


@pytest.fixture(params=["trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_it_reads_everything_once_and_commits_it(minikafka_bootstrap: str, topic: str, protocol: str) -> None:
    await fill(minikafka_bootstrap, topic, PARTITIONS, RECORDS)
    told = tool(
        *("verifiable-consumer", "--bootstrap-server", minikafka_bootstrap, "--topic", topic, "--group-id", topic),
        *("--group-protocol", protocol, "--reset-policy", "earliest", "--max-messages", RECORDS),
    )
    events: list[dict[str, Any]] = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    assert numbers(event["partitions"] for event in events if event["name"] == "partitions_assigned") == [0, 1, 2]
    assert numbers(event["partitions"] for event in events if event["name"] == "partitions_revoked") == [0, 1, 2]
    consumed = [event for event in events if event["name"] == "records_consumed"]
    assert sum(event["count"] for event in consumed) == RECORDS
    commits = [event for event in events if event["name"] == "offsets_committed"]
    assert all(event["success"] for event in commits)
    async with Admin(bootstrap_servers=minikafka_bootstrap) as admin:
        committed = await admin.list_group_offsets(topic)
    assert [one.offset for one in committed.values()] == [RECORDS // PARTITIONS] * PARTITIONS


def numbers(lists: Iterable[list[dict[str, Any]]]) -> list[int]:
    """The partitions of all lists, in order."""
    return sorted(one["partition"] for some in lists for one in some)
