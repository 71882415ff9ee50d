"""What calls raise that may not do what they ask: the error of Kafka's Java client, at the same call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.java_programs import lines_said, why_not_compiled
from support.node import NodeProcess

from minikafka.client import Acl, Admin, Consumer, KafkaError, Producer, TopicPartition, blocking
from minikafka.client.producer.transaction_state import AbortableTransactionError, FatalTransactionError
from minikafka.protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
USERS = "".join(f' user_{name}="{name}-secret"' for name in ("admin", "alice", "bob"))
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": f"{PLAIN}{USERS};",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin;User:ANONYMOUS",
}
GRANTED = [
    Acl("topic", "known", "User:alice", "read"),
    Acl("topic", "known", "User:alice", "write"),
    Acl("topic", "seen", "User:alice", "describe"),
    Acl("topic", "seen", "User:bob", "describe"),
    Acl("group", "readers", "User:alice", "read"),
    Acl("transactional_id", "writer", "User:alice", "write"),
]
SEEN, HIDDEN, KNOWN = (TopicPartition(name, 0) for name in ("seen", "hidden", "known"))
TOPIC, GROUP, CLUSTER, ID, NOTHING = "Topic", "Group", "Cluster", "TransactionalId", "nothing"
PRODUCERS = {
    "send, idempotent": CLUSTER,
    "send, hidden": TOPIC,
    "send, seen": TOPIC,
    "transaction, id": ID,
    "transaction, send, hidden": TOPIC,
    "transaction, commit after hidden": f"KafkaException of {TOPIC}",
    "transaction, abort after hidden": NOTHING,
    "transaction, send, seen": TOPIC,
    "transaction, commit after seen": f"KafkaException of {TOPIC}",
    "transaction, abort after seen": NOTHING,
    "transaction, offsets": GROUP,
    "transaction, commit after offsets": f"KafkaException of {GROUP}",
}
CONSUMERS = {
    "poll, hidden, first": TOPIC,
    "poll, hidden, second": TOPIC,
    "poll, seen, first": TOPIC,
    "poll, seen, second": TOPIC,
    "poll, group, first": GROUP,
    "poll, group, second": GROUP,
    "commit, group": GROUP,
    "committed, group": GROUP,
    "position, group": GROUP,
    "assigned, seen": TOPIC,
    "commit, seen": TOPIC,
    "assigned, hidden": TOPIC,
    "position, hidden": TOPIC,
    "committed, hidden": TOPIC,
    "commit, hidden": TOPIC,
    "beginning, hidden": TOPIC,
}
ADMINS: dict[str, tuple[str, Callable[[Any], Awaitable[Any]]]] = {
    "create topic": (TOPIC, lambda admin: admin.create_topic("made")),
    "delete topic": (TOPIC, lambda admin: admin.delete_topic("hidden")),
    "describe topic": (TOPIC, lambda admin: admin.describe_topic("hidden")),
    "create partitions": (TOPIC, lambda admin: admin.create_partitions("hidden", 9)),
    "describe configs": (TOPIC, lambda admin: admin.describe_configs("topic", "hidden")),
    "alter configs": (TOPIC, lambda admin: admin.alter_configs("topic", "hidden", set={"retention.ms": "1000"})),
    "list offsets": (TOPIC, lambda admin: admin.list_offsets({HIDDEN: -1})),
    "delete records": (TOPIC, lambda admin: admin.delete_records({HIDDEN: 0})),
    "describe group": (GROUP, lambda admin: admin.describe_group("strangers")),
    "group offsets": (GROUP, lambda admin: admin.list_group_offsets("strangers")),
    "alter group offsets": (GROUP, lambda admin: admin.alter_group_offsets("strangers", {HIDDEN: 1})),
    "delete group": (GROUP, lambda admin: admin.delete_group("strangers")),
    "describe ACLs": (CLUSTER, lambda admin: admin.describe_acls()),
    "create ACL": (CLUSTER, lambda admin: admin.create_acls([Acl("topic", "x", "User:x", "read")])),
    "describe transaction": (ID, lambda admin: admin.describe_transaction("other")),
    "describe quorum": (CLUSTER, lambda admin: admin.describe_quorum()),
    "describe users": (CLUSTER, lambda admin: admin.describe_user_scram_credentials()),
    "reassign": (CLUSTER, lambda admin: admin.alter_partition_reassignments({HIDDEN: [1]})),
    "elect": (CLUSTER, lambda admin: admin.elect_leaders([HIDDEN])),
    "client quotas": (CLUSTER, lambda admin: admin.describe_client_quotas()),
}
RACES = {"send, idempotent", "transaction, commit after hidden", "transaction, commit after seen"}
"""Java's `Sender` completes the record before it sets the error of the transaction or producer id: a call that comes in
between raises the error itself, and a later one a KafkaException of it."""
ERRORS: dict[type[KafkaError], str] = {
    TopicAuthorizationFailedError: TOPIC,
    GroupAuthorizationFailedError: GROUP,
    ClusterAuthorizationFailedError: CLUSTER,
    TransactionalIdAuthorizationFailedError: ID,
}


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with NodeProcess(tmp_path_factory.mktemp("denials") / "data", settings=SETTINGS) as node:
        with blocking.Admin(**options(node.bootstrap, "admin")) as admin:
            for tp in (KNOWN, SEEN, HIDDEN):
                admin.create_topic(tp.topic)
            assert set(admin.create_acls(GRANTED).values()) == {None}
        yield node.bootstrap


def options(bootstrap: str, user: str) -> dict[str, Any]:
    login = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": f"{user}-secret"}
    return {"bootstrap_servers": bootstrap, "security_protocol": "SASL_PLAINTEXT", **login}


def shown(error: BaseException | None) -> str:
    if isinstance(error, AbortableTransactionError):
        return f"KafkaException of {shown(error.__cause__)}"
    assert error is not None
    return ERRORS.get(type(error), repr(error))  # type: ignore[arg-type]


async def outcome(call: Callable[[], Awaitable[Any]]) -> str:
    """What a call raises, or returns among the results of several items."""
    with anyio.fail_after(20):
        try:
            result = await call()
        except KafkaError as error:
            return shown(error)
    errors = [one for one in result.values() if isinstance(one, KafkaError)] if isinstance(result, dict) else []
    return shown(errors[0]) if errors else NOTHING


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.skipif(why_not_compiled() is not None, reason=why_not_compiled() or "")
def test_javas_client_raises_these(bootstrap: str, tmp_path: Path) -> None:
    said = lines_said(Path(__file__).with_name("Denials.java"), tmp_path, bootstrap, timeout_s=200)
    expected = PRODUCERS | {f"admin, {name}": error for name, (error, _) in ADMINS.items()}
    for protocol in ("classic", "consumer"):
        expected |= {f"{protocol}, {name}": error for name, error in CONSUMERS.items()}
        expected[f"{protocol}, partitions, hidden"] = TOPIC
    expected["classic, poll, hidden, second"] = NOTHING  # until its next metadata; ours raises it again
    said = {name: error.replace("AuthorizationException", "") for name, error in said.items()}
    for cases in (said, expected):
        cases |= {name: cases[name].removeprefix("KafkaException of ") for name in RACES}
    assert said == expected


async def test_a_producer_without_a_right(bootstrap: str) -> None:
    async def send(topic: str, user: str) -> None:
        async with Producer(**options(bootstrap, user)) as producer:  # asks for a producer id
            await producer.send_and_wait(topic, b"x")

    assert await outcome(lambda: send("seen", "bob")) == PRODUCERS["send, idempotent"]
    assert await outcome(lambda: send("hidden", "alice")) == PRODUCERS["send, hidden"]
    assert await outcome(lambda: send("seen", "alice")) == PRODUCERS["send, seen"]


async def test_a_transactional_id_without_a_right(bootstrap: str) -> None:
    async def begin() -> None:
        async with Producer(**options(bootstrap, "alice"), transactional_id="other") as producer:
            await producer.begin()

    assert await outcome(begin) == PRODUCERS["transaction, id"]
    async with Producer(**options(bootstrap, "alice"), transactional_id="other", start="lazy") as producer:
        with pytest.raises(FatalTransactionError) as raised:
            await producer.begin()
    assert shown(raised.value.__cause__) == ID


@pytest.mark.parametrize("topic", ["hidden", "seen"])
async def test_a_topic_of_a_transaction_without_a_right(bootstrap: str, topic: str) -> None:
    async with Producer(**options(bootstrap, "alice"), transactional_id="writer") as producer:
        await producer.begin()
        assert await outcome(lambda: producer.send_and_wait(topic, b"x")) == PRODUCERS[f"transaction, send, {topic}"]
        assert await outcome(producer.commit) == PRODUCERS[f"transaction, commit after {topic}"]
        assert await outcome(producer.abort) == PRODUCERS[f"transaction, abort after {topic}"]
        async with producer.transaction():
            await producer.send("known", b"x")


async def test_a_group_of_a_transaction_without_a_right(bootstrap: str) -> None:
    async with Producer(**options(bootstrap, "alice"), transactional_id="writer") as producer:
        await producer.begin()
        await producer.send("known", b"x")
        offsets = outcome(lambda: producer.send_offsets_to_transaction({SEEN: 1}, "strangers"))
        assert await offsets == PRODUCERS["transaction, offsets"]
        assert await outcome(producer.commit) == PRODUCERS["transaction, commit after offsets"]


def consumer(bootstrap: str, protocol: str, *topics: str, group_id: str = "readers") -> Consumer:
    given = {"group_id": group_id, "group_protocol": protocol, "enable_auto_commit": False}
    return Consumer(*topics, **options(bootstrap, "alice"), **given, auto_offset_reset="earliest")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(("topic", "group_id"), [("hidden", "readers"), ("seen", "readers"), ("known", "strangers")])
async def test_a_subscription_without_a_right(bootstrap: str, protocol: str, topic: str, group_id: str) -> None:
    name = topic if group_id == "readers" else "group"
    async with consumer(bootstrap, protocol, topic, group_id=group_id) as reader:
        for time in ("first", "second"):
            said = await outcome(lambda: reader.poll(timeout_ms=5_000))
            assert said == CONSUMERS[f"poll, {name}, {time}"]


async def test_partitions_without_a_right(bootstrap: str) -> None:
    async with consumer(bootstrap, "classic") as reader:
        for tp, name in ((SEEN, "seen"), (HIDDEN, "hidden")):
            reader.assign([tp])
            assert await outcome(lambda: reader.poll(timeout_ms=5_000)) == CONSUMERS[f"assigned, {name}"]
            assert await outcome(lambda tp=tp: reader.commit({tp: 1})) == CONSUMERS[f"commit, {name}"]
        assert await outcome(lambda: reader.position(HIDDEN)) == CONSUMERS["position, hidden"]
        assert await outcome(lambda: reader.committed(HIDDEN)) == CONSUMERS["committed, hidden"]
        assert await outcome(lambda: reader.beginning_offsets([HIDDEN])) == CONSUMERS["beginning, hidden"]


async def test_a_group_without_a_right(bootstrap: str) -> None:
    async with consumer(bootstrap, "classic", group_id="strangers") as reader:
        reader.assign([SEEN])
        assert await outcome(lambda: reader.commit({SEEN: 1})) == CONSUMERS["commit, group"]
        assert await outcome(lambda: reader.committed(SEEN)) == CONSUMERS["committed, group"]
        assert await outcome(lambda: reader.position(SEEN)) == CONSUMERS["position, group"]


@pytest.mark.parametrize("name", ADMINS)
async def test_an_admin_without_a_right(bootstrap: str, name: str) -> None:
    error, call = ADMINS[name]
    async with Admin(**options(bootstrap, "alice")) as admin:
        assert await outcome(lambda: call(admin)) == error


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("kind", ["topic", "group"])
async def test_a_right_that_is_given_later_is_used(
    bootstrap: str, protocol: str, kind: str, anyio_backend_name: str
) -> None:
    """A consumer needs no new subscription, as with Kafka's client."""
    name = f"later-{protocol}-{kind}-{anyio_backend_name}"
    right = Acl(kind, name, "User:alice", "read")
    topic, group_id = (name, "readers") if kind == "topic" else ("known", name)
    async with Admin(**options(bootstrap, "admin")) as admin, Producer(**options(bootstrap, "admin")) as producer:
        if kind == "topic":
            await admin.create_topic(topic)
        await producer.send_and_wait(topic, b"x")
        async with consumer(bootstrap, protocol, topic, group_id=group_id) as reader:
            assert await outcome(lambda: reader.poll(timeout_ms=5_000)) == {"topic": TOPIC, "group": GROUP}[kind]
            assert await admin.create_acls([right]) == {right: None}
            with anyio.fail_after(30):
                records: list[Any] = []
                while not records:
                    try:
                        records = await reader.poll(timeout_ms=5_000)
                    except (TopicAuthorizationFailedError, GroupAuthorizationFailedError):
                        continue
            assert records[0].topic == topic


async def test_other_topics_are_read_beside_one_that_is_hidden(bootstrap: str) -> None:
    """Under the classic protocol; under the other one the coordinator refuses the whole subscription."""
    async with Producer(**options(bootstrap, "alice")) as producer:
        await producer.send_and_wait("known", b"x")
    raised, records = set[str](), list[Any]()
    async with consumer(bootstrap, "classic", "hidden", "known") as reader:
        with anyio.fail_after(30):
            while not (raised and records):
                try:
                    records += await reader.poll(timeout_ms=5_000)
                except TopicAuthorizationFailedError as error:
                    raised.add(str(error))
    assert raised == {"topic 'hidden': topic authorization failed"}
    assert {one.topic for one in records} == {"known"}


async def test_the_words_say_what_is_missing(bootstrap: str) -> None:
    with pytest.raises(ClusterAuthorizationFailedError, match="WRITE on a topic or IDEMPOTENT_WRITE on the cluster"):
        async with Producer(**options(bootstrap, "bob")):
            pass
    with pytest.raises(TransactionalIdAuthorizationFailedError, match="transaction 'other'"):
        async with Producer(**options(bootstrap, "alice"), transactional_id="other"):
            pass
    async with consumer(bootstrap, "classic", "known", group_id="strangers") as reader:
        with pytest.raises(GroupAuthorizationFailedError, match="group 'strangers'"):
            await reader.poll(timeout_ms=5_000)
