"""What a client may do: each API under each grant answers as Apache Kafka, whose answers are in a file.

`support.authorization_matrix` records them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from support.authorization_matrix import (
    A_TOKEN,
    OTHER_TOPIC,
    ROWS,
    TOPIC,
    Row,
    answer_of,
    body_of,
    columns,
    preparations,
)
from support.authorized_node import ADMIN, ALICE, AuthorizedNode, allow, authorized_node

from minikafka.broker.connections.long_polls import Parked
from minikafka.broker.connections.request_context import Disconnect
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.headers import decode_response
from minikafka.protocol.messages.fetch import FetchResponse
from minikafka.storage.waits import Rest, completed

ANSWERS: dict[str, list[dict[str, Any]]] = {
    row: answers
    for name in ("authorization_answers.json", "controller_authorization_answers.json")
    for row, answers in json.loads((Path(__file__).parent / name).read_text()).items()
}
Answers = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def answers() -> Answers:
    """The answers of minikafka by row and column."""

    async def main() -> Answers:
        found: dict[str, dict[str, Any]] = {row.name: {} for row in ROWS}
        async with authorized_node(**{"delegation.token.secret.key": "secret"}) as node:
            topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (TOPIC, OTHER_TOPIC)]
            await node.prepare(("CreateTopics", 7, {"topics": topics, "timeout_ms": 9000}), *preparations())
            described = await node.prepare(("Metadata", 12, {"topics": [{"name": TOPIC}]}))
            topic_id, hmac = described.topics[0].topic_id, (await node.prepare(A_TOKEN)).hmac
            for label, grants in columns().items():
                node.grants.granted = grants
                for row in ROWS:
                    response = await node.ask(ALICE, row.api, row.version, body_of(row, topic_id, hmac))
                    found[row.name][label] = answer_of(row, response)
        return found

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_api_under_each_grant_answers_as_kafka(row: Row, answers: Answers) -> None:
    expected = {label: one["answer"] for one in ANSWERS[row.name] for label in one["grants"]}
    assert answers[row.name] == expected


# -- what a table does not show ----------------------------------------------------------------------------------

READ_TOPIC = allow(AclOperation.READ, AclResourceType.TOPIC, TOPIC)
REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
RECORD = {"value": "r", "timestamp": 1_700_000_000_000}


def run(body: Callable[[AuthorizedNode], Awaitable[None]], **settings: str) -> None:
    """Run `body(node)` with two topics, on a clock that jumps ahead when all tasks wait."""

    async def main() -> None:
        async with authorized_node(**settings) as node:
            topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in (TOPIC, OTHER_TOPIC)]
            offsets = [
                {"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in (TOPIC, OTHER_TOPIC)
            ]
            await node.prepare(
                ("CreateTopics", 7, {"topics": topics, "timeout_ms": 9000}),
                ("ListOffsets", 8, {"replica_id": -1, "topics": offsets}),
            )
            await body(node)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def fetch(*topics: str, offset: int = 0, **fields: Any) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1000}
    return {
        "max_wait_ms": 5000,
        "min_bytes": 1,
        "max_bytes": 1000,
        "topics": [{"topic": name, "partitions": [partition]} for name in topics],
        "session_epoch": -1,
    } | fields


def produce(topic: str, **fields: Any) -> dict[str, Any]:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": [RECORD]}]}]
    return {"acks": 1, "timeout_ms": 5000, "topic_data": data} | fields


def errors_of(response: Any) -> dict[str, int]:
    return {topic.topic: one.error_code for topic in response.responses for one in topic.partitions}


async def waited(node: AuthorizedNode, body: dict[str, Any]) -> tuple[float, Any]:
    """Fetch as alice; returns the seconds that passed, and the response."""
    began = trio.current_time()
    response = await node.ask(ALICE, "Fetch", 12, body)
    return trio.current_time() - began, response


def test_a_refused_topic_does_not_shorten_the_wait_for_others_whether_it_exists_or_not() -> None:
    async def body(node: AuthorizedNode) -> None:
        node.grants.granted = [READ_TOPIC]
        for hidden in (OTHER_TOPIC, "t-none"):
            time_s, response = await waited(node, fetch(TOPIC, hidden))
            assert errors_of(response) == {TOPIC: 0, hidden: REFUSED}
            assert time_s == pytest.approx(5)

    run(body)


def test_a_fetch_of_only_refused_topics_does_not_wait() -> None:
    async def body(node: AuthorizedNode) -> None:
        for session_epoch in (-1, 0):
            time_s, response = await waited(node, fetch(TOPIC, "t-none", session_epoch=session_epoch))
            assert errors_of(response) == {TOPIC: REFUSED, "t-none": REFUSED}
            assert time_s == 0
        session = {"session_id": response.session_id, "session_epoch": 1}
        time_s, response = await waited(node, fetch(**session))
        assert errors_of(response) == {TOPIC: REFUSED, "t-none": REFUSED}
        assert time_s == 0

    run(body)


def test_a_fetch_is_authorized_when_it_comes_not_when_its_wait_ends() -> None:
    async def body(node: AuthorizedNode) -> None:
        node.grants.granted = [READ_TOPIC]
        async with trio.open_nursery() as nursery:

            async def consume() -> None:
                time_s, response = await waited(node, fetch(TOPIC))
                assert errors_of(response) == {TOPIC: 0}
                assert len(response.responses[0].partitions[0].records) > 0
                assert time_s == pytest.approx(1)

            nursery.start_soon(consume)
            await trio.sleep(1)
            node.grants.granted = []
            await node.ask(ADMIN, "Produce", 9, produce(TOPIC))
        assert errors_of(await node.ask(ALICE, "Fetch", 12, fetch(TOPIC))) == {TOPIC: REFUSED}

    run(body)


def test_a_fetch_does_not_wait_together_with_the_same_one_of_a_client_that_may_read() -> None:
    """Without an authorizer, consumers that wait at the same offset share one read and one response."""

    class Receiver:
        def deliver(self, parts: list[Any] | None) -> None:
            raise AssertionError("a response was shared")

    async def body(node: AuthorizedNode) -> None:
        asked: Any = (ALICE, "Fetch", 12, fetch(TOPIC), Receiver())
        node.grants.granted = [READ_TOPIC]
        waiting = node.begin(*asked)
        assert isinstance(waiting, Rest)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(completed, waiting)
            await trio.testing.wait_all_tasks_blocked()
            node.grants.granted = []
            refused = node.begin(*asked)
            assert not isinstance(refused, Parked)
            parts, _ = await completed(refused)
            _, response = decode_response(FetchResponse, 12, b"".join(parts)[4:])
            assert errors_of(response) == {TOPIC: REFUSED}

    run(body)


def test_a_session_learns_that_a_topic_may_no_longer_be_read_and_that_it_may_again() -> None:
    async def body(node: AuthorizedNode) -> None:
        node.grants.granted = [READ_TOPIC, allow(AclOperation.READ, AclResourceType.TOPIC, OTHER_TOPIC)]
        opened = await node.ask(ALICE, "Fetch", 12, fetch(TOPIC, OTHER_TOPIC, session_epoch=0, max_wait_ms=0))
        session = {"session_id": opened.session_id, "max_wait_ms": 0}
        assert errors_of(await node.ask(ALICE, "Fetch", 12, fetch(session_epoch=1, **session))) == {}
        node.grants.granted = [READ_TOPIC]
        for epoch in (2, 3):
            told = await node.ask(ALICE, "Fetch", 12, fetch(session_epoch=epoch, **session))
            assert errors_of(told) == {OTHER_TOPIC: REFUSED}
        await node.ask(ADMIN, "Produce", 9, produce(OTHER_TOPIC))
        node.grants.granted = [READ_TOPIC, allow(AclOperation.READ, AclResourceType.TOPIC, OTHER_TOPIC)]
        told = await node.ask(ALICE, "Fetch", 12, fetch(session_epoch=4, **session))
        assert errors_of(told) == {OTHER_TOPIC: 0}
        assert len(told.responses[0].partitions[0].records) > 0

    run(body)


def test_a_topic_is_created_for_a_client_that_may_create_and_describe_it() -> None:
    describe, create = (
        allow(operation, AclResourceType.TOPIC, "new") for operation in (AclOperation.DESCRIBE, AclOperation.CREATE)
    )
    create_any = allow(AclOperation.CREATE, AclResourceType.CLUSTER, CLUSTER_NAME)
    asked = {"topics": [{"name": "new"}], "allow_auto_topic_creation": True}

    async def body(node: AuthorizedNode) -> None:
        for granted in ([], [create], [create_any], [describe]):
            node.grants.granted = granted
            (topic,) = (await node.ask(ALICE, "Metadata", 12, asked)).topics
            assert topic.error_code == REFUSED
            everything = await node.ask(ADMIN, "Metadata", 12, {"topics": None})
            assert "new" not in [topic.name for topic in everything.topics]
        for granted, name in (([describe, create], "new"), ([create_any, describe._replace(name="new2")], "new2")):
            node.grants.granted = granted
            (topic,) = (await node.ask(ALICE, "Metadata", 12, asked | {"topics": [{"name": name}]})).topics
            assert topic.error_code != REFUSED
            await node.prepare(("Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": False}))

    run(body)


def test_topics_that_metadata_creates_count_for_the_quota_of_the_client() -> None:
    """As Kafka: what is above `controller_mutation_rate` is not created, and stays unknown."""
    entity = [{"entity_type": "user", "entity_name": ALICE.name}]
    quota = [{"key": "controller_mutation_rate", "value": 0.001}]

    async def body(node: AuthorizedNode) -> None:
        node.grants.granted = [
            allow(operation, AclResourceType.TOPIC, name)
            for operation in (AclOperation.DESCRIBE, AclOperation.CREATE)
            for name in ("first", "second")
        ]
        await node.prepare(("AlterClientQuotas", 1, {"entries": [{"entity": entity, "ops": quota}]}))
        for name in ("first", "second"):
            await node.ask(ALICE, "Metadata", 12, {"topics": [{"name": name}], "allow_auto_topic_creation": True})
            await trio.sleep(1)
        everything = await node.ask(ADMIN, "Metadata", 12, {"topics": None})
        assert {"first", "second"} & {topic.name for topic in everything.topics} == {"first"}

    run(body)


def test_only_who_may_act_as_a_node_takes_the_memory_of_followers() -> None:
    epochs = {"replica_id": 5, "topics": [{"topic": TOPIC, "partitions": [{"partition": 0}]}]}
    asked = [("Fetch", 12, fetch(TOPIC, replica_id=5, max_wait_ms=0)), ("OffsetForLeaderEpoch", 4, epochs)]

    async def body(node: AuthorizedNode) -> None:
        acts = allow(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)
        for granted in ([READ_TOPIC], [acts]):
            node.grants.granted = granted
            for request in asked:
                await node.ask(ALICE, *request)
                assert node.connection.follows == (granted == [acts]), request

    run(body)


def test_without_acknowledgement_a_refused_topic_closes_the_connection_and_the_others_are_written() -> None:
    async def body(node: AuthorizedNode) -> None:
        node.grants.granted = [allow(AclOperation.WRITE, AclResourceType.TOPIC, TOPIC)]
        both = produce(TOPIC)["topic_data"] + produce(OTHER_TOPIC)["topic_data"]
        with pytest.raises(Disconnect):
            await node.ask(ALICE, "Produce", 9, produce(TOPIC, acks=0, topic_data=both))
        node.grants.granted = []
        counts = []
        for name in (TOPIC, OTHER_TOPIC):
            partitions = [{"partition_index": 0, "timestamp": -1}]
            found = await node.ask(
                ADMIN, "ListOffsets", 8, {"replica_id": -1, "topics": [{"name": name, "partitions": partitions}]}
            )
            counts.append(found.topics[0].partitions[0].offset)
        assert counts == [1, 0]

    run(body)


def test_a_topic_is_asked_about_once_however_many_partitions_a_request_names() -> None:
    async def body(node: AuthorizedNode) -> None:
        node.grants.granted = [READ_TOPIC]
        topics = fetch(TOPIC)["topics"]
        topics[0]["partitions"] = [dict(topics[0]["partitions"][0], partition=number) for number in range(30)]
        node.grants.asked.clear()
        await node.ask(ALICE, "Fetch", 12, fetch(topics=topics))
        assert node.grants.asked == [(AclOperation.READ, AclResourceType.TOPIC, TOPIC)]

    run(body)


def test_a_page_of_topics_counts_only_those_that_the_client_may_describe() -> None:
    async def body(node: AuthorizedNode) -> None:
        node.grants.granted = [allow(AclOperation.DESCRIBE, AclResourceType.TOPIC, OTHER_TOPIC)]
        page = await node.ask(ALICE, "DescribeTopicPartitions", 0, {"topics": [], "response_partition_limit": 1})
        assert [topic.name for topic in page.topics] == [OTHER_TOPIC]
        assert page.next_cursor is None

    run(body)


def test_a_regular_expression_finds_only_topics_that_the_member_may_describe() -> None:
    asked = {
        "group_id": "g-a",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_regex": "t-.*",
        "topic_partitions": [],
    }

    async def body(node: AuthorizedNode) -> None:
        await node.prepare(("FindCoordinator", 4, {"key_type": 0, "coordinator_keys": ["g-a"]}))
        await node.prepare(("ListGroups", 4, {}))
        node.grants.granted = [READ_TOPIC, allow(AclOperation.READ, AclResourceType.GROUP, "g-a")]
        joined = await node.ask(ALICE, "ConsumerGroupHeartbeat", 1, asked)
        assigned = joined.assignment
        epoch = joined.member_epoch
        with trio.fail_after(60):
            while assigned is None or not assigned.topic_partitions:
                await trio.sleep(1)
                told = await node.ask(
                    ALICE, "ConsumerGroupHeartbeat", 1, {"group_id": "g-a", "member_id": "m", "member_epoch": epoch}
                )
                epoch, assigned = told.member_epoch, told.assignment or assigned
        found = await node.ask(ADMIN, "Metadata", 12, {"topics": [{"name": TOPIC}]})
        assert [topic.topic_id for topic in assigned.topic_partitions] == [found.topics[0].topic_id]

    run(body)
