"""No wait of a client is silent: after two seconds, and then every ten, it says what it waits for and why."""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Acl, AclFilter, Admin, Consumer, GroupMetadata, NewTopic, Producer, TopicPartition
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from minikafka.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

TP = TopicPartition("t", 0)
Wait = Callable[[Any], Awaitable[Any]]


class Case(NamedTuple):
    """A client, how it is prepared while its broker is well, and the call that waits when the broker is not."""

    kind: type
    wait: Wait
    options: dict[str, Any]
    prepare: Callable[[Any], Any] | None = None


class Done(Exception):
    """Leaves a client without waiting for deliveries."""


class Said(logging.Handler):
    """The lines of the client's logger, each with the time of the running event loop."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[tuple[float, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "minikafka.client":
            self.lines.append((trio.current_time(), record.getMessage()))


def network_of_one() -> FakeNetwork:
    network = FakeNetwork({"t": [1]})
    place = ListOffsetsPartitionResponse(offset=0)
    found = Coordinator(node_id=1, host="a", port=1, error_message=None)
    network.broker(
        "a",
        1,
        {
            InitProducerIdRequest: lambda request, version: InitProducerIdResponse(producer_id=5),
            FindCoordinatorRequest: lambda request, version: FindCoordinatorResponse(coordinators=[found]),
            ListOffsetsRequest: lambda request, version: ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name="t", partitions=[place])]
            ),
            FetchRequest: lambda request, version: None,
            JoinGroupRequest: lambda request, version: None,
        },
    )
    return network


def refuse(network: FakeNetwork) -> None:
    network.brokers[0].die()


def freeze(network: FakeNetwork) -> None:
    network.brokers[0].handlers = dict.fromkeys(network.brokers[0].handlers, lambda request, version: None)
    network.brokers[0].serve = lambda frame, stream: None  # type: ignore[method-assign]


AWAY = {"refuses": refuse, "is silent": freeze}


async def deliver(producer: Producer) -> None:
    await (await producer.send("t", b"1"))


async def deliver_unheeded(producer: Producer) -> None:
    await producer.send("t", b"1")
    await trio.sleep_forever()


async def fill(producer: Producer) -> None:
    while True:
        await producer.send("t", b"1")


async def flush(producer: Producer) -> None:
    await producer.send("t", b"1")
    await producer.flush()


async def commit(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send("t", b"1")


async def abort(producer: Producer) -> None:
    await producer.begin()
    producer._transactions().state.started = True
    await producer.abort()


async def send_offsets(producer: Producer) -> None:
    await producer.begin()
    await producer.send_offsets_to_transaction({TP: 1}, GroupMetadata("g"))


async def iterate(consumer: Consumer) -> None:
    async for _ in consumer:
        pass


async def poll_again_and_again(consumer: Consumer) -> None:
    while True:
        await consumer.poll(700)


async def assign(consumer: Consumer) -> None:
    consumer.assign([TP])
    while not await consumer.poll(100) and consumer._fetcher.states[TP].position is None:
        pass
    await consumer.poll(100)


async def assign_later(consumer: Consumer) -> None:
    consumer.assign([TP])
    await consumer.position(TP)


LINGER_0 = {"linger_ms": 0}
PRODUCERS = {
    "send to an unknown topic": Case(Producer, lambda one: one.send("unknown", b""), {}),
    "partitions_for": Case(Producer, lambda one: one.partitions_for("unknown"), {}),
    "a delivery": Case(Producer, deliver, LINGER_0, lambda one: one.partitions_for("t")),
    "a delivery that nobody awaits": Case(Producer, deliver_unheeded, LINGER_0, lambda one: one.partitions_for("t")),
    "memory": Case(Producer, fill, {"buffer_memory": 1000}, lambda one: one.partitions_for("t")),
    "flush": Case(Producer, flush, {}, lambda one: one.partitions_for("t")),
    "commit": Case(Producer, commit, {"transactional_id": "x"}, lambda one: one.partitions_for("t")),
    "abort": Case(Producer, abort, {"transactional_id": "x"}),
    "send_offsets_to_transaction": Case(Producer, send_offsets, {"transactional_id": "x"}),
}
CONSUMERS = {
    "iterate": Case(Consumer, iterate, {}, assign),
    "poll again and again": Case(Consumer, poll_again_and_again, {}, assign),
    "position": Case(Consumer, assign_later, {}),
    "committed": Case(Consumer, lambda one: one.committed(TP), {"group_id": "g"}),
    "commit": Case(Consumer, lambda one: one.commit({TP: 1}), {"group_id": "g"}),
    "join": Case(Consumer, iterate, {"group_id": "g"}, lambda one: one.subscribe(["t"])),
    "subscribe": Case(Consumer, lambda one: one.subscribe(["t"]), {}),
    "beginning_offsets": Case(Consumer, lambda one: one.beginning_offsets([TP]), {}),
    "end_offsets": Case(Consumer, lambda one: one.end_offsets([TP]), {}),
    "offsets_for_times": Case(Consumer, lambda one: one.offsets_for_times({TP: 1}), {}),
    "seek_to_time": Case(Consumer, lambda one: one.seek_to_time(1, TP), {}, assign),
}
ADMIN_CALLS: dict[str, Wait] = {
    "abort_transaction": lambda one: one.abort_transaction(TP, 1, 1, 1),
    "add_raft_voter": lambda one: one.add_raft_voter(1, "AAAAAAAAAAAAAAAAAAAAAA", {"CONTROLLER": "a:1"}),
    "alter_client_quotas": lambda one: one.alter_client_quotas({"user": "u"}, set={"request_percentage": 1.0}),
    "alter_configs": lambda one: one.alter_configs("topic", "t", set={"retention.ms": "1"}),
    "alter_group_offsets": lambda one: one.alter_group_offsets("g", {TP: 1}),
    "alter_partition_reassignments": lambda one: one.alter_partition_reassignments({TP: [1]}),
    "create_acls": lambda one: one.create_acls([Acl("topic", "t", "User:a", "read")]),
    "create_delegation_token": lambda one: one.create_delegation_token(),
    "create_partitions": lambda one: one.create_partitions("t", 2),
    "create_topic": lambda one: one.create_topic("u"),
    "create_topics": lambda one: one.create_topics([NewTopic("u")]),
    "delete_acls": lambda one: one.delete_acls([AclFilter()]),
    "delete_group": lambda one: one.delete_group("g"),
    "delete_records": lambda one: one.delete_records({TP: 1}),
    "delete_topic": lambda one: one.delete_topic("t"),
    "delete_topics": lambda one: one.delete_topics(["t"]),
    "delete_user_scram_credential": lambda one: one.delete_user_scram_credential("a"),
    "describe_acls": lambda one: one.describe_acls(),
    "describe_api_versions": lambda one: one.describe_api_versions(),
    "describe_client_quotas": lambda one: one.describe_client_quotas(),
    "describe_cluster": lambda one: one.describe_cluster(),
    "describe_configs": lambda one: one.describe_configs("topic", "t"),
    "describe_delegation_tokens": lambda one: one.describe_delegation_tokens(),
    "describe_features": lambda one: one.describe_features(),
    "describe_group": lambda one: one.describe_group("g"),
    "describe_log_dirs": lambda one: one.describe_log_dirs(),
    "describe_producers": lambda one: one.describe_producers(TP),
    "describe_quorum": lambda one: one.describe_quorum(),
    "describe_topic": lambda one: one.describe_topic("t"),
    "describe_topic_configs": lambda one: one.describe_topic_configs(["t"]),
    "describe_topics": lambda one: one.describe_topics(["t"]),
    "describe_transaction": lambda one: one.describe_transaction("x"),
    "describe_user_scram_credentials": lambda one: one.describe_user_scram_credentials(),
    "elect_leaders": lambda one: one.elect_leaders([TP]),
    "expire_delegation_token": lambda one: one.expire_delegation_token(b"x"),
    "find_hanging_transactions": lambda one: one.find_hanging_transactions([TP]),
    "list_config_resources": lambda one: one.list_config_resources("topic"),
    "list_group_offsets": lambda one: one.list_group_offsets("g"),
    "list_groups": lambda one: one.list_groups(),
    "list_offsets": lambda one: one.list_offsets({TP: 1}),
    "list_offsets_of_each": lambda one: one.list_offsets_of_each({TP: 1}),
    "list_partition_reassignments": lambda one: one.list_partition_reassignments(),
    "list_topics": lambda one: one.list_topics(),
    "list_transactions": lambda one: one.list_transactions(),
    "remove_raft_voter": lambda one: one.remove_raft_voter(1, "AAAAAAAAAAAAAAAAAAAAAA"),
    "renew_delegation_token": lambda one: one.renew_delegation_token(b"x"),
    "unregister_broker": lambda one: one.unregister_broker(1),
    "update_features": lambda one: one.update_features({"metadata.version": 1}),
    "upsert_user_scram_credential": lambda one: one.upsert_user_scram_credential("a", "b"),
}
CASES = {
    **{f"producer: {name}": case for name, case in PRODUCERS.items()},
    **{f"consumer: {name}": case for name, case in CONSUMERS.items()},
    **{f"admin: {name}": Case(Admin, call, {}) for name, call in ADMIN_CALLS.items()},
}


@asynccontextmanager
async def listening() -> AsyncIterator[Said]:
    said, logger = Said(), logging.getLogger("minikafka.client")
    logger.addHandler(said)
    try:
        yield said
    finally:
        logger.removeHandler(said)


def test_every_call_of_the_admin_client_is_listed() -> None:
    public = {name for name, one in vars_of(Admin).items() if inspect.iscoroutinefunction(one) and name[0] != "_"}
    assert public == ADMIN_CALLS.keys()


def vars_of(kind: type) -> dict[str, Any]:
    return {name: one for base in reversed(kind.__mro__) for name, one in vars(base).items()}


@pytest.mark.slow
@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("name", CASES)
def test_a_wait_that_lasts_is_told_after_two_seconds_and_then_every_ten(name: str, away: str) -> None:
    case, network = CASES[name], network_of_one()
    where = {"bootstrap_servers": "a:1", "seams": network.seams()}

    async def main() -> None:
        async with listening() as said, case.kind(**where, **case.options) as client:
            if case.prepare is not None:
                await case.prepare(client)
            AWAY[away](network)
            began = trio.current_time()
            with trio.move_on_after(29):
                await case.wait(client)
            lines = [(round(when - began, 1), line) for when, line in said.lines if when - began < 29]
            for since in (2, 12, 22):
                assert 1 <= sum(since <= when <= since + 4 for when, _ in lines) <= 2, lines
            assert all(when % 10 >= 2 for when, _ in lines), lines
            for _, line in lines:
                assert line.startswith("still waiting: ")
                assert "a:1" in line
                assert "\n" not in line
            raise Done

    with pytest.raises(Done):
        trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("kind", [Producer, Consumer, Admin])
def test_entering_a_client_is_a_wait(kind: type, away: str) -> None:
    network = network_of_one()
    AWAY[away](network)

    async def main() -> None:
        async with listening() as said:
            with pytest.raises(Exception, match="a:1"):
                async with kind(bootstrap_servers="a:1", seams=network.seams()):
                    raise AssertionError("not reached")
            (line,) = [line for _, line in said.lines]
            assert line.startswith("still waiting: connecting: ")
            assert "a:1" in line

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_who_waits_for_records_that_do_not_come_says_nothing() -> None:
    network = network_of_one()

    async def main() -> None:
        async with listening() as said, Consumer(bootstrap_servers="a:1", seams=network.seams()) as consumer:
            await assign(consumer)
            network.brokers[0].handlers[FetchRequest] = lambda request, version: None
            with trio.move_on_after(1):
                await iterate(consumer)
            assert said.lines == []

    trio.run(main, clock=MockClock(autojump_threshold=0))


def test_many_waits_with_one_reason_are_one_line() -> None:
    network = network_of_one()

    async def main() -> None:
        async with listening() as said, Producer("a:1", seams=network.seams()) as producer:
            refuse(network)
            async with trio.open_nursery() as nursery:
                for n in range(50):
                    nursery.start_soon(producer.partitions_for, f"unknown-{n}")
                await trio.sleep(4)
                nursery.cancel_scope.cancel()
            (line,) = [line for _, line in said.lines]
            assert "and 47 more" in line
            assert len(line) < 400

    trio.run(main, clock=MockClock(autojump_threshold=0))
