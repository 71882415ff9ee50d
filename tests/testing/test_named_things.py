"""What requests name, for all requests that there are."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from support.wire_messages import random_message

from minikafka.protocol.apis import APIS
from minikafka.protocol.message import decode, encode
from minikafka.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from minikafka.testing.faults.named_things import NamedThings, copy_of, join, named_things, without

T_ID = b"t" * 16


def names(topic_id: bytes) -> str:
    return "t" if topic_id == T_ID else ""


CASES = [(api.name, version) for api in APIS.values() for version in range(api.versions.first, api.versions.last + 1)]


@pytest.mark.parametrize(("api", "version"), CASES)
def test_any_request_can_be_searched_copied_and_divided(api: str, version: int) -> None:
    cls: Any = next(one.request for one in APIS.values() if one.name == api)
    seeded = Random(f"{api} {version}")
    for _ in range(5):
        request = random_message(cls, version, seeded)
        found = named_things(request, names)
        assert isinstance(found, NamedThings)
        copied = copy_of(request)
        assert encode(copied, version) == encode(request, version)
        without(copied, names, lambda topic, partition: False)
        assert named_things(copied, names).partitions == []
        kept = copy_of(request)
        without(kept, names, lambda topic, partition: True)
        assert sorted(map(str, named_things(kept, names).partitions)) == sorted(map(str, found.partitions))


@pytest.mark.parametrize("api", list(APIS.values()), ids=lambda api: api.name)
def test_any_response_can_be_joined_with_what_was_taken_out(api: Any) -> None:
    version, seeded = api.versions.last, Random(api.name)
    for _ in range(5):
        response = decode(api.response, version, encode(random_message(api.response, version, seeded), version))
        some, others = copy_of(response), copy_of(response)
        without(some, names, lambda topic, partition: (partition or 0) % 2 == 0)
        without(others, names, lambda topic, partition: (partition or 0) % 2 == 1)
        join(some, others, names)
        joined, before = numbered(some), numbered(response)
        assert joined >= before


def numbered(message: Any) -> set[tuple[str, int]]:
    return {(topic, number) for topic, number in named_things(message, names).partitions if number is not None}


def test_topics_are_found_by_name_and_by_id() -> None:
    data = [PartitionProduceData(index=3, records=b"")]
    by_name = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="a", partition_data=data)])
    by_id = FetchRequest(topics=[FetchTopic(topic_id=T_ID, partitions=[FetchPartition(partition=1)])])
    assert named_things(by_name, names).partitions == [("a", 3)]
    assert named_things(by_id, names).partitions == [("t", 1)]


def test_groups_and_transactions_are_found() -> None:
    in_group = JoinGroupRequest(group_id="g", session_timeout_ms=1, member_id="", protocol_type="x", protocols=[])
    assert named_things(in_group, names).groups == {"g"}
    of_transaction = FindCoordinatorRequest(key_type=1, coordinator_keys=["x"])
    assert named_things(of_transaction, names).transactional_ids == {"x"}
    assert named_things(FindCoordinatorRequest(key="g"), names).groups == {"g"}
