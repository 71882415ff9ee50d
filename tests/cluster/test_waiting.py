"""Requests that wait, on real processes: what they hold back, and what ends them.

`ANSWERS` is what Apache Kafka answers: `MINIKAFKA_TESTS_ON=kafka` runs the same tests against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.clients import eventually
from support.clusters import ON_KAFKA, PATIENCE_S, Topic, heal, make
from support.conversation_player import CLOSED, NOTHING, Connection

from minikafka.cli.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster
from minikafka.client.blocking import Admin
from minikafka.protocol.headers import encode_request
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
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch}
    topics = [{"topic": topic, "partitions": [partition]}]
    return "Fetch", 11, {"max_wait_ms": FOREVER_MS, "min_bytes": 1 << 20, "max_bytes": 1 << 20, "topics": topics}


def fetch_from_any(topic: str) -> tuple[str, int, dict[str, Any]]:
    """A Fetch that does not name a leader epoch: a follower may serve it."""
    return fetch(topic, epoch=-1)


def delete_records(topic: str) -> tuple[str, int, dict[str, Any]]:
    """A DeleteRecords, which waits for all live replicas."""
    topics = [{"name": topic, "partitions": [{"partition_index": 0, "offset": 1}]}]
    return "DeleteRecords", 2, {"topics": topics, "timeout_ms": FOREVER_MS}


WAITING: dict[str, Callable[[str], tuple[str, int, dict[str, Any]]]] = {
    "Produce": produce,
    "Fetch": fetch,
    "Fetch from any": fetch_from_any,
    "DeleteRecords": delete_records,
}
ERROR_OF: dict[str, Callable[[Any], int]] = {
    "Produce": lambda answer: answer.responses[0].partition_responses[0].error_code,
    "Fetch": lambda answer: answer.responses[0].partitions[0].error_code,
    "Fetch from any": lambda answer: answer.responses[0].partitions[0].error_code,
    "DeleteRecords": lambda answer: answer.topics[0].partitions[0].error_code,
}


@pytest.fixture(scope="module")
def patient_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {
        "broker.session.timeout.ms": "60000",
        "replica.lag.time.max.ms": "60000",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
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


def deleted(cluster: LocalCluster, topic: str) -> None:
    with Admin(cluster.address(2)) as admin:
        admin.delete_topic(topic)


def moved(cluster: LocalCluster, topic: str) -> None:
    place = TopicPartition(topic, 0)
    with Admin(cluster.address(2)) as admin:
        admin.alter_partition_reassignments({place: [2, 1, 3]})
        eventually(lambda: admin.describe_topic(topic).partitions[0].replicas == (2, 1, 3), timeout_s=PATIENCE_S)
        admin.elect_leaders([place])


def stopped(cluster: LocalCluster, topic: str) -> None:
    cluster.stop(1, timeout_s=PATIENCE_S)


EVENTS = {"deleted": deleted, "moved": moved, "stopped": stopped}
UNKNOWN, NOT_LEADER, NOT_COORDINATOR, REBALANCE, FENCED_EPOCH = 3, 6, 16, 27, 74
ANSWERS: dict[str, dict[str, int | str]] = {
    "Produce": {"deleted": UNKNOWN, "moved": NOT_LEADER, "stopped": NOT_LEADER},
    "Fetch": {"deleted": UNKNOWN, "moved": FENCED_EPOCH, "stopped": FENCED_EPOCH},
    "Fetch from any": {"deleted": UNKNOWN, "moved": NOTHING, "stopped": CLOSED},
    "DeleteRecords": {"deleted": UNKNOWN, "moved": NOT_LEADER, "stopped": NOT_LEADER},
}
"""What our brokers answer. NOTHING where the request goes on, as it should: a follower serves this fetch."""
OF_KAFKA_ONLY: dict[str, dict[str, int | str]] = {
    "DeleteRecords": {"deleted": NOTHING, "moved": NOTHING, "stopped": CLOSED},
}
"""What Apache Kafka 4.3 answers where it differs: DeleteRecords waits until its timeout, whatever happens."""


def expected(api: str, event: str) -> int | str:
    return (ON_KAFKA and OF_KAFKA_ONLY.get(api, {}).get(event)) or ANSWERS[api][event]


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("api", WAITING)
def test_a_request_hears_at_once_that_it_waits_in_vain(patient: LocalCluster, api: str, event: str) -> None:
    topic = f"{api}-{event}".replace(" ", "-")
    Topic(patient, topic, [[1, 2, 3]]).write(b"first")
    client = Connection((HOST, patient.nodes[1].port))
    patient.pause(3)
    client.send(*WAITING[api](topic))
    assert client.receive(1) == NOTHING, "it does not wait"
    EVENTS[event](patient, topic)
    answer = client.receive(1 if expected(api, event) == NOTHING else SOON_S)
    client.close()
    assert (answer if isinstance(answer, str) else ERROR_OF[api](answer[1])) == expected(api, event)


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


OF_MEMBERS: dict[str, dict[str, int | str]] = {
    "JoinGroup": {"moved": NOT_COORDINATOR, "stopped": NOT_COORDINATOR},
    "SyncGroup": {"moved": NOT_COORDINATOR, "stopped": NOT_COORDINATOR, "left": REBALANCE},
}


@pytest.mark.parametrize(("api", "event"), [(api, event) for api, events in OF_MEMBERS.items() for event in events])
def test_a_waiting_member_hears_at_once_that_its_coordinator_or_leader_is_gone(
    patient: LocalCluster, api: str, event: str
) -> None:
    members = Members(patient, f"{api}-{event}")
    waiting = members.wait(api)
    if event == "left":
        leave = LeaveGroupRequest(group_id=f"{api}-{event}", member_id=members.ids[members.first])
        members.first.send_raw(encode_request(leave, 2, 3, "member"), "LeaveGroup", 2)
    elif event == "stopped":
        patient.stop(members.coordinator, timeout_s=PATIENCE_S)
    else:
        move_coordinator(patient, members.coordinator)
    answer = waiting.receive(SOON_S)
    members.first.close()
    members.second.close()
    assert (answer if isinstance(answer, str) else answer[1].error_code) == OF_MEMBERS[api][event]


def move_coordinator(cluster: LocalCluster, coordinator: int) -> None:
    place = TopicPartition("__consumer_offsets", 0)
    others = tuple(node_id for node_id in cluster.broker_ids if node_id != coordinator)
    with Admin(cluster.address(others[0])) as admin:
        admin.alter_partition_reassignments({place: [*others, coordinator]})
        eventually(
            lambda: admin.describe_topic(place.topic).partitions[0].replicas == (*others, coordinator),
            timeout_s=PATIENCE_S,
        )
        admin.elect_leaders([place])


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
