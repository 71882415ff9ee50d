"""Requests that wait, on real processes: what they hold back, and what ends them.

The requests of a test wait together, each on a connection of its own. Broker 3 is in sync and paused: nothing is
committed. `OF_KAFKA_ONLY` is what Apache Kafka answers where it differs: `MINIKAFKA_TESTS_ON=kafka` runs the same
tests against it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from support.clients import eventually
from support.clusters import ON_KAFKA, PATIENCE_S, Topic, heal, make
from support.conversation_player import CLOSED, NOTHING, Connection

from minikafka.cli.clusters.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin
from minikafka.protocol.headers import encode_request
from minikafka.protocol.message import fields_of
from minikafka.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.messages.sync_group import SyncGroupRequest
from minikafka.protocol.names import TopicPartition

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600 if ON_KAFKA else 300)]
VERSION = 11
SOON_S = 30
FOREVER_MS = 120_000


def produce(topic: str, acks: int = -1) -> tuple[str, int, dict[str, Any]]:
    """A Produce of one record to partition 0."""
    records = {"name": topic, "partition_data": [{"index": 0, "records": ["a record"]}]}
    return "Produce", VERSION, {"acks": acks, "timeout_ms": FOREVER_MS, "topic_data": [records]}


def fetch(topic: str, epoch: int = 0) -> tuple[str, int, dict[str, Any]]:
    """A Fetch of a consumer that knows the leader epoch; it waits for records which do not come."""
    partition = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch}
    topics = [{"topic": topic, "partitions": [partition]}]
    return "Fetch", 11, {"max_wait_ms": FOREVER_MS, "min_bytes": 1 << 20, "max_bytes": 1 << 20, "topics": topics}


def fetch_from_any(topic: str) -> tuple[str, int, dict[str, Any]]:
    """A Fetch that does not name a leader epoch: a follower may serve it."""
    return fetch(topic, epoch=-1)


def delete_records(topic: str) -> tuple[str, int, dict[str, Any]]:
    """A DeleteRecords, which waits for all live replicas."""
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    return "DeleteRecords", 2, {"topics": topics, "timeout_ms": FOREVER_MS}


OF_PARTITIONS: dict[str, Callable[[str], tuple[str, int, dict[str, Any]]]] = {
    "Produce": produce,
    "Fetch": fetch,
    "Fetch from any": fetch_from_any,
    "DeleteRecords": delete_records,
}
UNKNOWN, NOT_LEADER, NOT_COORDINATOR, REBALANCE, FENCED_EPOCH, NOT_AVAILABLE = 3, 6, 16, 27, 74, 78
ANSWERS: dict[str, dict[str, int | str]] = {
    "deleted": {"Produce": UNKNOWN, "Fetch": UNKNOWN, "Fetch from any": UNKNOWN, "DeleteRecords": UNKNOWN},
    "moved": {
        "Produce": NOT_LEADER,
        "Fetch": FENCED_EPOCH,
        "Fetch from any": NOTHING,  # It goes on, as it should: a follower serves this fetch.
        "DeleteRecords": NOT_LEADER,
    },
    "stopped": {
        "Produce": NOT_LEADER,
        "Fetch": FENCED_EPOCH,
        "Fetch from any": CLOSED,
        "DeleteRecords": NOT_LEADER,
    },
}
OF_KAFKA_ONLY: dict[str, dict[str, int | str]] = {
    "deleted": {"DeleteRecords": NOTHING},
    "moved": {"DeleteRecords": NOTHING},
    "stopped": {"DeleteRecords": CLOSED},
}
"""DeleteRecords of Apache Kafka 4.3 waits until its timeout, whatever happens."""


@pytest.fixture(scope="module")
def patient_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {
        "broker.session.timeout.ms": "60000",
        "replica.lag.time.max.ms": "60000",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": "3",
    }
    directory = tmp_path_factory.mktemp("patient")
    with make(directory, brokers=3, controllers=1, isolated=True, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def patient(patient_nodes: LocalCluster) -> Iterator[LocalCluster]:
    """Brokers that stay in sync while they are paused."""
    heal(patient_nodes)
    yield patient_nodes
    patient_nodes.resume()


def deleted(cluster: LocalCluster, *topics: str) -> None:
    with Admin(cluster.address(2)) as admin:
        for topic in topics:
            admin.delete_topic(topic)


def moved(cluster: LocalCluster, *topics: str) -> None:
    """Broker 2 leads the topics, with broker 1 still in sync."""
    lead(cluster, (2, 1, 3), topics)


def stopped(cluster: LocalCluster, *topics: str) -> None:
    """Broker 1 begins a controlled shutdown. It ends only once broker 3, which is paused, has the metadata of it."""
    os.kill(cluster.pid(1), signal.SIGTERM)


EVENTS = {"deleted": deleted, "moved": moved, "stopped": stopped}


def lead(cluster: LocalCluster, replicas: tuple[int, ...], topics: Sequence[str]) -> None:
    """Have the first of the replicas lead partition 0 of the topics."""
    places = [TopicPartition(topic, 0) for topic in topics]
    with Admin(cluster.address(2)) as admin:

        def done() -> bool:
            return all(admin.describe_topic(topic).partitions[0].replicas == replicas for topic in topics)

        admin.alter_partition_reassignments({place: list(replicas) for place in places})
        eventually(done, timeout_s=PATIENCE_S)
        admin.elect_leaders(places)


def wait_in_vain(waiting: Mapping[str, Connection]) -> None:
    """Checks that each request waits."""
    for number, (api, client) in enumerate(waiting.items()):
        assert client.receive(0 if number else 1) == NOTHING, f"{api} does not wait"


def answers(cluster: LocalCluster, waiting: Mapping[str, Connection], expected: Mapping[str, int | str]) -> Any:
    """The error code of each response, NOTHING or CLOSED. Connections are closed only once nobody is paused."""
    found = {api: answer(waiting[api], wait_s=SOON_S) for api in expected if isinstance(expected[api], int)}
    found |= {api: answer(waiting[api], wait_s=1) for api in expected if expected[api] == NOTHING}
    cluster.resume()
    found |= {api: answer(waiting[api], wait_s=SOON_S) for api in expected if expected[api] == CLOSED}
    for client in waiting.values():
        client.close()
    return found


def answer(client: Connection, *, wait_s: float) -> int | str:
    received = client.receive(wait_s)
    return received if isinstance(received, str) else error_in(received[1])


def error_in(response: Any) -> int:
    """The first error code in a response; 0 if there is none."""
    values = {field.name: getattr(response, field.name) for field in fields_of(type(response))}
    found = [value for name, value in values.items() if name.endswith("error_code")]
    inner = [each for value in values.values() if isinstance(value, list) for each in value]
    return next(filter(None, [*found, *(error_in(each) for each in inner if not isinstance(each, int))]), 0)


def expected_of(event: str) -> dict[str, int | str]:
    return {**ANSWERS[event], **(OF_KAFKA_ONLY[event] if ON_KAFKA else {})}


@pytest.mark.parametrize("event", EVENTS)
def test_requests_of_a_partition_hear_at_once_that_they_wait_in_vain(patient: LocalCluster, event: str) -> None:
    topic = f"to-be-{event}"
    Topic(patient, topic, [[1, 2, 3]]).write(b"first")
    patient.pause(3)
    waiting = {api: Connection((HOST, patient.nodes[1].port)) for api in OF_PARTITIONS}
    for api, client in waiting.items():
        client.send(*OF_PARTITIONS[api](topic))
    wait_in_vain(waiting)
    EVENTS[event](patient, topic)
    assert answers(patient, waiting, expected_of(event)) == expected_of(event)
    if event == "stopped":
        patient.stop(1, timeout_s=PATIENCE_S)


class Members:
    """Two members of a group, each with a connection to the coordinator."""

    def __init__(self, cluster: LocalCluster, group: str) -> None:
        self._group = group
        eventually(lambda: self._connected(cluster), timeout_s=PATIENCE_S)

    def _connected(self, cluster: LocalCluster) -> bool:
        """Connect to the coordinator, and have the first member join. False if it has moved just now."""
        with Admin(cluster.bootstrap) as admin:
            admin.list_group_offsets(self._group)  # has the coordinator's topic created
            self.coordinator = admin.describe_topic("__consumer_offsets").partitions[0].leader
        address = (HOST, cluster.nodes[self.coordinator].port)
        self.first, self.second = Connection(address), Connection(address)
        self.ids = {self.first: "", self.second: ""}
        self.join(self.first)
        received = self.first.receive(SOON_S)
        if isinstance(received, str) or received[1].error_code:
            return False
        self.ids[self.first] = received[1].member_id
        self.generation = received[1].generation_id
        return True

    def join(self, member: Connection) -> None:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=60_000,
            rebalance_timeout_ms=FOREVER_MS,
            member_id=self.ids[member],
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        member.send_raw(encode_request(request, 3, 1, "member"), "JoinGroup", 3)

    def joined(self, member: Connection) -> int:
        received = member.receive(SOON_S)
        assert not isinstance(received, str), received
        assert received[1].error_code == 0, received[1]
        self.ids[member] = received[1].member_id
        generation: int = received[1].generation_id
        return generation

    def sync(self, member: Connection) -> None:
        request = SyncGroupRequest(
            group_id=self._group, generation_id=self.generation, member_id=self.ids[member], assignments=[]
        )
        member.send_raw(encode_request(request, 2, 2, "member"), "SyncGroup", 2)

    def wait(self, api: str) -> Connection:
        """Have the second member wait in JoinGroup or SyncGroup, for the first one."""
        self.sync(self.first)
        synced = self.first.receive(SOON_S)
        assert not isinstance(synced, str), synced
        self.join(self.second)
        assert self.second.receive(1) == NOTHING, "it does not wait for the first member"
        if api == "SyncGroup":
            self.join(self.first)
            self.generation = self.joined(self.second)
            self.joined(self.first)
            self.sync(self.second)
        assert self.second.receive(1) == NOTHING, "it does not wait"
        return self.second


def of_coordinators(client: Connection) -> dict[str, tuple[str, int, dict[str, Any]]]:
    """Requests of one open transaction and of two producers, which wait for the log of a coordinator."""
    first, second = (initialized(client, name) for name in ("open", "added to"))
    in_group = {**first, "group_id": "transacted"}
    client.ask("AddOffsetsToTxn", 3, in_group)
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"name": OPEN, "partitions": [offset]}]
    more = [{"name": OPEN, "partitions": [0]}]
    alone = {"group_id": "alone", "generation_id_or_member_epoch": -1}
    return {
        "OffsetCommit": ("OffsetCommit", 7, {**alone, "topics": topics}),
        "TxnOffsetCommit": ("TxnOffsetCommit", 3, {**in_group, "topics": topics}),
        "InitProducerId": ("InitProducerId", 4, {"transactional_id": "new", "transaction_timeout_ms": 60_000}),
        "AddPartitionsToTxn": ("AddPartitionsToTxn", 3, v3(second, topics=more)),
        "EndTxn": ("EndTxn", 3, {**first, "committed": True}),
    }


def initialized(client: Connection, transactional_id: str) -> dict[str, Any]:
    """The fields that name a new producer in its requests."""
    body = {"transactional_id": transactional_id, "transaction_timeout_ms": 60_000}
    found: list[Any] = []

    def done() -> bool:
        found[:] = [client.ask("InitProducerId", 4, body)]
        return found[0].error_code == 0

    eventually(done, timeout_s=PATIENCE_S)
    producer = {"producer_id": found[0].producer_id, "producer_epoch": found[0].producer_epoch}
    return {"transactional_id": transactional_id, **producer}


def v3(producer: dict[str, Any], *, topics: list[Any]) -> dict[str, Any]:
    """The body of AddPartitionsToTxn in the version of clients."""
    return {**{f"v3_and_below_{name}": value for name, value in producer.items()}, "v3_and_below_topics": topics}


OPEN = "of-a-transaction"
COORDINATORS = ("__consumer_offsets", "__transaction_state")
APIS_OF_COORDINATORS = (
    "JoinGroup", "SyncGroup", "OffsetCommit", "TxnOffsetCommit", "InitProducerId", "AddPartitionsToTxn", "EndTxn",
)


def coordinate_first(cluster: LocalCluster) -> None:
    """Have broker 1 coordinate all groups and transactions."""
    with Admin(cluster.bootstrap) as admin:
        admin.list_group_offsets("any")  # has the coordinator's topic created
    client = Connection((HOST, cluster.nodes[1].port))
    body = {"key_type": 1, "coordinator_keys": ["any"]}
    eventually(lambda: not error_in(client.ask("FindCoordinator", 4, body)), timeout_s=PATIENCE_S)
    client.close()
    lead(cluster, (1, 2, 3), COORDINATORS)


@pytest.mark.parametrize("event", ["moved", "stopped"])
def test_requests_hear_at_once_that_their_coordinator_is_gone(patient: LocalCluster, event: str) -> None:
    coordinate_first(patient)
    Topic(patient, OPEN)
    address = (HOST, patient.nodes[1].port)
    members = {api: Members(patient, f"{api}-{event}") for api in ("JoinGroup", "SyncGroup")}
    waiting = {api: members[api].wait(api) for api in members}
    requests = of_coordinators(Connection(address))
    patient.pause(3)
    for api, request in requests.items():
        waiting[api] = Connection(address)
        waiting[api].send(*request)
    wait_in_vain(waiting)
    EVENTS[event](patient, *COORDINATORS)
    expected = dict.fromkeys(APIS_OF_COORDINATORS, NOT_COORDINATOR)
    assert answers(patient, waiting, expected) == expected
    if event == "stopped":
        patient.stop(1, timeout_s=PATIENCE_S)


def test_a_member_that_waits_for_a_leader_hears_at_once_that_it_left(patient: LocalCluster) -> None:
    members = Members(patient, "left")
    waiting = members.wait("SyncGroup")
    leave = LeaveGroupRequest(group_id="left", member_id=members.ids[members.first])
    members.first.send_raw(encode_request(leave, 2, 3, "member"), "LeaveGroup", 2)
    assert answer(waiting, wait_s=SOON_S) == REBALANCE


def test_list_offsets_does_not_wait_for_a_new_leader_to_learn_the_high_watermark(patient: LocalCluster) -> None:
    """Without tiered storage nothing of ListOffsets waits, in Apache Kafka as here."""
    topic = Topic(patient, "listed", [[1, 2, 3]])
    patient.pause(3)
    topic.write(b"not committed", acks=1)
    client = Connection((HOST, patient.nodes[2].port))
    topics = [{"name": "listed", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    body, of_debugger = ({"replica_id": replica, "topics": topics} for replica in (-1, -2))

    def follower_end() -> int:
        end: int = client.ask("ListOffsets", 7, of_debugger).topics[0].partitions[0].offset
        return end

    eventually(lambda: follower_end() == 1, timeout_s=PATIENCE_S)
    moved(patient, "listed")
    refused: list[int] = []

    def refuses() -> bool:
        refused[:] = [error_in(client.ask("ListOffsets", 7, body))]
        return refused != [NOT_LEADER]

    eventually(refuses, timeout_s=PATIENCE_S)
    assert refused == [NOT_AVAILABLE]
    patient.resume()
    eventually(lambda: not error_in(client.ask("ListOffsets", 7, body)), timeout_s=PATIENCE_S)
    client.close()


def test_an_acknowledgement_leaves_before_the_next_request_waits(brokers: LocalCluster, name: str) -> None:
    """Of two requests that were read together the second waits for a follower."""
    Topic(brokers, name, [[1, 2, 3]])
    client = Connection((HOST, brokers.nodes[1].port))
    brokers.pause(3)
    client.send_together(produce(name, acks=1), produce(name))
    first = client.receive(SOON_S)
    second = client.receive(0)
    brokers.resume(3)
    client.close()
    assert not isinstance(first, str), first
    assert first[1].responses[0].partition_responses[0].error_code == 0
    assert second == NOTHING, "the first response came with the second"
