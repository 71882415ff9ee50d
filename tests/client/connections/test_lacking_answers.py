"""Responses that lack what was asked for, name it twice or name something else: calls raise a KafkaError, or succeed.

Each call of a client is made with a node once, and its responses are kept. Then it is made again with each of their
lists empty, or twice as long, each of their names another one or empty, and each of their fields null that may be; of
an `Admin` also with each of their error codes set once. At last, the broker offers older versions only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, NamedTuple

import pytest
import trio
from support.fake_network import FakeNetwork, FakeStream, HangUp, Later
from trio.testing import MockClock

from minikafka.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from minikafka.client.connections.connection import Connection
from minikafka.client.groups.group_metadata import GroupMetadata
from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.codec.schema import fields_of
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.headers import decode_response
from minikafka.protocol.message import MalformedMessage
from minikafka.protocol.messages.api_versions import ApiVersionsResponse
from minikafka.protocol.messages.fetch import FetchRequest
from minikafka.protocol.messages.metadata import MetadataResponse

Call = Callable[..., Awaitable[Any]]
Path = tuple[str, ...]
TP = TopicPartition("lacking", 0)
RARELY: dict[str, Any] = {"retry_backoff_ms": 1_000, "request_timeout_ms": 4_000}
"""Few attempts are enough: the responses are always the same."""
QUICK: dict[str, Any] = {"default_api_timeout_ms": 5_000, **RARELY}
SENDS: dict[str, Any] = {"max_block_ms": 5_000, "delivery_timeout_ms": 5_000, "linger_ms": 0, **RARELY}
SPINS = 5_000
"""No call sends that many requests in its time, unless it sends them without a pause."""
REQUESTS = {api.response: api.request for api in APIS.values()}


class Kept(NamedTuple):
    """A response as it was received."""

    kind: Any
    version: int
    frame: bytes


async def transact(producer: Producer) -> None:
    async with producer.transaction():
        await producer.send(TP.topic, b"value")
        await producer.send_offsets_to_transaction({TP: 1}, GroupMetadata("lacking-g"))


ADMIN: dict[str, Callable[[Admin], Awaitable[Any]]] = {
    "create_topic": lambda admin: admin.create_topic("made"),
    "create_topics": lambda admin: admin.create_topics([NewTopic("made-1"), NewTopic("made-2")]),
    "create_partitions": lambda admin: admin.create_partitions("made", 2),
    "alter_configs": lambda admin: admin.alter_configs("topic", "made", set={"retention.ms": "1"}),
    "delete_topic": lambda admin: admin.delete_topic("made"),
    "delete_topics": lambda admin: admin.delete_topics(["made-1", "made-2"]),
    "list_topics": lambda admin: admin.list_topics(),
    "describe_topic": lambda admin: admin.describe_topic(TP.topic),
    "describe_topics": lambda admin: admin.describe_topics([TP.topic, "none"]),
    "describe_configs": lambda admin: admin.describe_configs("topic", TP.topic, synonyms=True),
    "describe_topic_configs": lambda admin: admin.describe_topic_configs([TP.topic]),
    "list_offsets": lambda admin: admin.list_offsets({TP: -1}),
    "list_offsets_of_each": lambda admin: admin.list_offsets_of_each({TP: -1}),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(),
    "alter_group_offsets": lambda admin: admin.alter_group_offsets("lacking-a", {TP: 1}),
    "list_group_offsets": lambda admin: admin.list_group_offsets("lacking-a", [TP]),
    "all group offsets": lambda admin: admin.list_group_offsets("lacking-a"),
    "list_groups": lambda admin: admin.list_groups(),
    "describe_group": lambda admin: admin.describe_group("lacking-a"),
    "delete_group": lambda admin: admin.delete_group("lacking-a"),
    "elect_leaders": lambda admin: admin.elect_leaders([TP]),
    "elect all leaders": lambda admin: admin.elect_leaders(),
    "alter_partition_reassignments": lambda admin: admin.alter_partition_reassignments({TP: None}),
    "list_partition_reassignments": lambda admin: admin.list_partition_reassignments([TP]),
    "describe_quorum": lambda admin: admin.describe_quorum(),
    "list_transactions": lambda admin: admin.list_transactions(),
    "describe_transaction": lambda admin: admin.describe_transaction("lacking-x"),
    "describe_producers": lambda admin: admin.describe_producers(TP),
    "abort_transaction": lambda admin: admin.abort_transaction(TP, 1_000, 0, 0),
    "find_hanging_transactions": lambda admin: admin.find_hanging_transactions([TP], older_than_ms=0),
    "describe_api_versions": lambda admin: admin.describe_api_versions(),
    "describe_features": lambda admin: admin.describe_features(),
    "update_features": lambda admin: admin.update_features({"transaction.version": 2}),
    "alter_client_quotas": lambda admin: admin.alter_client_quotas({"user": "u"}, set={"producer_byte_rate": 1e9}),
    "describe_client_quotas": lambda admin: admin.describe_client_quotas({"user": "u"}),
    "list_config_resources": lambda admin: admin.list_config_resources("topic"),
    "delete_records": lambda admin: admin.delete_records({TP: 1}),
}  # fmt: skip
CONSUMER: dict[str, Callable[[Consumer], Awaitable[Any]]] = {
    "poll": lambda consumer: consumer.poll(300),
    "commit": lambda consumer: consumer.commit({TP: 1}),
    "committed": lambda consumer: consumer.committed(TP),
    "end_offsets": lambda consumer: consumer.end_offsets([TP]),
    "offsets_for_times": lambda consumer: consumer.offsets_for_times({TP: 1}),
}  # fmt: skip


async def with_admin(call: Callable[[Admin], Awaitable[Any]], bootstrap: str, **options: Any) -> Any:
    async with Admin(bootstrap, **QUICK, **options) as admin:
        return await call(admin)


async def with_member(
    name: str, protocol: Any, bootstrap: str, **options: Any
) -> None:
    """The call is made of a member of a group, which has an assignment."""
    group_id = f"lacking-{name}-{protocol}"
    async with Consumer(
        TP.topic, bootstrap_servers=bootstrap, group_id=group_id, group_protocol=protocol,
        auto_offset_reset="earliest", **QUICK, **options,
    ) as consumer:  # fmt: skip
        await consumer.poll(5_000)
        await CONSUMER[name](consumer)


async def with_assigned(call: Callable[[Consumer], Awaitable[Any]], bootstrap: str, **options: Any) -> None:
    async with Consumer(bootstrap_servers=bootstrap, group_id="lacking-b", **QUICK, **options) as consumer:
        consumer.assign([TP])
        await consumer.end_offsets([TP])  # Before the id of the topic is known, requests are of other versions.
        await call(consumer)


async def send(bootstrap: str, **options: Any) -> None:
    async with Producer(bootstrap, **SENDS, **options) as producer:
        await producer.send_and_wait(TP.topic, b"value")


async def commit_transaction(bootstrap: str, **options: Any) -> None:
    async with Producer(bootstrap, transactional_id="lacking-x", **SENDS, **options) as producer:
        await transact(producer)


CALLS: dict[str, Call] = {
    "send": send,
    "transaction": commit_transaction,
    **{name: partial(with_admin, call) for name, call in ADMIN.items()},
    **{name: partial(with_assigned, call) for name, call in CONSUMER.items()},
    **{
        f"{name}, {protocol}": partial(with_member, name, protocol)
        for name in CONSUMER
        for protocol in ("classic", "consumer")
    },
}


@pytest.fixture(scope="module")
def conversations(minikafka_bootstrap: str) -> dict[str, dict[Any, Kept]]:
    """By call, the last response of each kind that it received."""
    kept: dict[str, dict[Any, Kept]] = {}

    async def main(patch: pytest.MonkeyPatch) -> None:
        async with Admin(minikafka_bootstrap) as admin:
            await admin.create_topic(TP.topic, partitions=1)
            await admin.alter_group_offsets("lacking-b", {TP: 0})
        decoded = Connection._decode
        for name, call in CALLS.items():
            received = kept[name] = {}

            def decode(self: Any, pending: Any, frame: bytearray, received: Any = received) -> Any:
                number, message = decoded(self, pending, frame)
                if getattr(message, "assignment", b"") is not None:  # Of heartbeats, those that assign something.
                    received[pending.response] = Kept(pending.response, pending.version, bytes(frame))
                return number, message

            patch.setattr(Connection, "_decode", decode)
            try:
                with trio.fail_after(30):
                    await call(minikafka_bootstrap)
            except KafkaError:
                assert name in ("abort_transaction", "describe_transaction"), name

    with pytest.MonkeyPatch.context() as patch:
        trio.run(main, patch)
    return kept


class Player(FakeNetwork):
    """A broker that answers with what was kept, one kind of response changed."""

    def __init__(self, kept: dict[Any, Kept], changed: Any = None, change: Callable[[Any], Any] | None = None) -> None:
        super().__init__()
        self._changed, self._change = changed, change
        self.broker("a", 1, {api.request: self._missing for api in APIS.values()})
        self._answers = count(1)
        self.brokers[0].handlers |= {REQUESTS[one.kind]: partial(self._play, one) for one in kept.values()}

    async def open_stream(self, host: str, port: int, receiver: Any, task_group: Any) -> FakeStream:
        return await super().open_stream("a", 1, receiver, task_group)

    def _missing(self, request: Any, version: int) -> Any:
        raise HangUp

    def _play(self, kept: Kept, request: Any, version: int) -> Any:
        """A fetch takes time, as otherwise a consumer fetches so often that no time passes."""
        assert next(self._answers) < SPINS, "requests follow one another without a pause"
        _, response = decode_response(kept.kind, kept.version, bytearray(kept.frame))
        if kept.kind is self._changed and self._change is not None:
            self._change(response)
        if not isinstance(request, FetchRequest):
            return response
        later = Later()
        trio.lowlevel.spawn_system_task(self._answer, later, response)
        return later

    async def _answer(self, later: Later, response: Any) -> None:
        await trio.sleep(0.1)
        with suppress(MalformedMessage):  # The request that closes a session is answered before.
            later.answer(response)


def places(cls: type, before: Path = ()) -> Iterator[tuple[Path, str]]:
    """The fields of a response that can be changed, and how."""
    for one in fields_of(cls):
        path = (*before, one.name)
        kind = one.kind.name if one.kind is not None else ""
        named = kind == "string" or (kind == "int32" and one.name.endswith(("partition", "_index", "_id")))
        if one.is_array:
            yield path, "empty"
            yield path, "double"
        elif named:
            yield path, "rename"
            if kind == "string":
                yield path, "clear"
        if one.nullable.last >= one.nullable.first:
            yield path, "null"
        if one.struct is not None:
            yield from places(one.struct, path)


def change(path: Path, how: str, found: Any) -> int:
    """Change a field wherever it is; return how often it was found."""
    if isinstance(found, list):
        return sum(change(path, how, one) for one in found)
    if found is None:
        return 0
    value = getattr(found, path[0])
    if len(path) > 1:
        return change(path[1:], how, value)
    if how == "rename":
        value = "x" if value is None else value + ("x" if isinstance(value, str) else 1)
    elif how == "clear":
        value = ""
    elif how == "double":
        value = (value or []) * 2
    else:
        value = [] if how == "empty" else None
    setattr(found, path[0], value)
    return 1


def outcome(call: Call, network: Player) -> Any:
    """Raises what is no KafkaError."""

    async def main() -> Any:
        try:
            with trio.fail_after(60):
                await call("a:1", seams=network.seams())
        except KafkaError as error:
            return error
        return None

    return trio.run(main, clock=MockClock(autojump_threshold=0))


@pytest.mark.sweep
@pytest.mark.parametrize("name", CALLS)
def test_only_kafka_errors_are_raised(name: str, conversations: dict[str, dict[Any, Kept]]) -> None:
    kept, done = conversations[name], count()
    assert outcome(CALLS[name], Player(kept)) is None or name in ("abort_transaction", "describe_transaction")
    for kind in kept:
        for path, how in places(kind):
            try:
                outcome(CALLS[name], Player(kept, kind, partial(change, path, how)))
            except Exception as error:
                raise AssertionError(f"{kind.__name__} {'.'.join(path)}: {how}") from error
            next(done)
    assert next(done)


def offer(key: int, version: int, response: Any) -> None:
    """Limit the versions of an API that a broker offers."""
    for one in response.api_keys:
        if one.api_key == key:
            one.max_version = version


@pytest.mark.sweep
@pytest.mark.parametrize("name", CALLS)
def test_brokers_with_older_versions_cause_kafka_errors_only(
    name: str, conversations: dict[str, dict[Any, Kept]]
) -> None:
    """A request may need what an older version lacks."""
    kept = conversations[name]
    for kind, one in kept.items():
        key = api_of(REQUESTS[kind]).key
        for version in range(one.version):
            if kind is ApiVersionsResponse:
                continue
            try:
                outcome(CALLS[name], Player(kept, ApiVersionsResponse, partial(offer, key, version)))
            except Exception as error:
                raise AssertionError(f"{kind.__name__} up to version {version}") from error


TRANSIENT = (ErrorCode.NOT_CONTROLLER, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER)
VALUES = {"elect_leaders", "elect all leaders", "alter_partition_reassignments", "describe_log_dirs", "update_features"}
"""Calls that return, or raise, the errors of single items as they are: of elections, directories and features."""


def codes(cls: type, before: Path = ()) -> Iterator[Path]:
    """The error codes of a response."""
    for one in fields_of(cls):
        if one.name == "error_code":
            yield (*before, one.name)
        elif one.struct is not None:
            yield from codes(one.struct, (*before, one.name))


def fail_once(path: Path, code: int, done: list[bool], found: Any) -> None:
    """Set an error code in the first response."""
    if not done:
        done.append(True)
        _set(path, code, found)


def _set(path: Path, code: int, found: Any) -> None:
    for one in found if isinstance(found, list) else [] if found is None else [found]:
        if len(path) > 1:
            _set(path[1:], code, getattr(one, path[0]))
        else:
            one.error_code = code


@pytest.mark.sweep
@pytest.mark.parametrize("name", ADMIN)
def test_an_error_that_passes_is_neither_raised_nor_returned(
    name: str, conversations: dict[str, dict[Any, Kept]]
) -> None:
    """Each error code of each response, also those of single items, names a retriable error once."""

    async def main(network: Player) -> Any:
        with trio.fail_after(60):
            return await with_admin(ADMIN[name], "a:1", seams=network.seams())

    kept = conversations[name]
    for kind in kept:
        for path in codes(kind):
            if len(path) > 1 and name in VALUES and kind is not MetadataResponse:
                continue
            for code in TRANSIENT:
                done: list[bool] = []
                network = Player(kept, kind, partial(fail_once, path, code, done))
                try:
                    found = trio.run(main, network, clock=MockClock(autojump_threshold=0))
                except KafkaError as error:
                    found = error if name not in ("abort_transaction", "describe_transaction") else None
                results = found.values() if isinstance(found, dict) else [found]
                errors = [one for one in results if isinstance(one, KafkaError) and one.code == code]
                assert not errors, f"{kind.__name__} {'.'.join(path)}: {code.name}"


@pytest.mark.sweep
@pytest.mark.parametrize("code", TRANSIENT)
def test_topics_are_listed_whatever_errors_they_have(code: int, conversations: dict[str, dict[Any, Kept]]) -> None:
    def fail(response: Any) -> None:
        _set(("topics", "error_code"), code, response)

    async def main(*change: Any) -> Any:
        network = Player(conversations["list_topics"], MetadataResponse, *change)
        return await with_admin(ADMIN["list_topics"], "a:1", seams=network.seams())

    assert trio.run(main, fail) == trio.run(main) != []
