"""`minikafka quorum`, `elect-leaders`, `reassign` and the filters of `topics describe`.

They run against one node, and on a network in memory, which records requests and gives responses.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.command_line import Minikafka
from support.fake_network import FakeNetwork

from minikafka.cli.commands import elect_leaders, quorum, reassign
from minikafka.cli.commands.topics import part_of
from minikafka.client import Admin, ClusterDescription, QuorumDescription, QuorumReplica, Reassignment, TopicPartition
from minikafka.client.connections.cluster_metadata import Broker, Partition, Topic
from minikafka.protocol.errors import (
    BrokerIdNotRegisteredError,
    DuplicateVoterError,
    ElectionNotNeededError,
    ErrorCode,
    NotControllerError,
)
from minikafka.protocol.messages import add_raft_voter as adding
from minikafka.protocol.messages import alter_partition_reassignments as altering
from minikafka.protocol.messages import describe_quorum as describing
from minikafka.protocol.messages import elect_leaders as electing
from minikafka.protocol.messages import list_partition_reassignments as listing
from minikafka.protocol.messages import remove_raft_voter as removing
from minikafka.protocol.messages import unregister_broker as unregistering
from minikafka.protocol.names import uuid_from_text, uuid_text

TP = TopicPartition("t", 0)
DIRECTORY = "OE8e3QHzSYiQ4sEexampAA"
NOT_CONTROLLER, NOT_NEEDED, NOT_REGISTERED = 41, 84, 102


def test_the_quorum_of_one_node(minikafka: Minikafka) -> None:
    ran = minikafka("quorum", "describe")
    assert ran.code == 0, ran
    assert ran.lines[0].startswith("leader 1, epoch ")
    assert ran.lines[2].split()[:2] == ["1", "leader"]
    described = json.loads(minikafka("quorum", "describe", "--json").out)
    assert (described["leader"], described["replicas"][0]["lag"]) == (1, 0)


def test_a_quorum_is_described_leader_first() -> None:
    found = QuorumDescription(
        leader_id=2,
        leader_epoch=7,
        high_watermark=90,
        voters=[QuorumReplica(1, 88, 990, 980, ("a:1",), DIRECTORY), QuorumReplica(2, 90, 1000, 1000, ("a:2",))],
        observers=[QuorumReplica(4, 60, -1, -1)],
    )
    assert quorum.description(found) == [
        "leader 2, epoch 7, high watermark 90",
        "  NODE  STATUS    LOG END  LAG  BEHIND MS  ADDRESS  DIRECTORY",
        "     2  leader         90    0  0          a:2      -",
        f"     1  follower       88    2  20         a:1      {DIRECTORY}",
        "     4  observer       60   30  -          -        -",
    ]


def test_no_election_is_needed_where_the_preferred_replica_leads(minikafka: Minikafka, topic: str) -> None:
    assert minikafka("elect-leaders").out == "No election was needed (0 partitions).\n"
    assert minikafka("elect-leaders", topic, f"{topic}:0").out == "No election was needed (1 partition).\n"
    refused = minikafka("elect-leaders", f"{topic}:7")
    assert (refused.code, refused.err.startswith(f"Error: {topic}-7: ")) == (1, True)
    assert minikafka("elect-leaders", f"{topic}:x").code == 2
    assert minikafka("elect-leaders", "no-such-topic").code == 1


def test_a_reassignment_to_the_current_replicas(minikafka: Minikafka, topic: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [1]}]}))
    ran = minikafka("reassign", "execute", str(plan), "--wait")
    assert (ran.code, ran.err) == (0, "Started the reassignment of 1 partition.\n")
    assert json.loads(ran.out) == json.loads(plan.read_text())
    assert minikafka("reassign", "verify", str(plan)).lines[1].split() == [f"{topic}-0", "1", "complete"]
    assert minikafka("reassign", "list").out == "No reassignments in progress.\n"
    assert minikafka("reassign", "list", "--json").out == "[]\n"
    assert minikafka("reassign", "cancel", "--all").out == "Cancelled the reassignment of 0 partitions.\n"


def test_an_impossible_plan(minikafka: Minikafka, topic: str) -> None:
    def ran(command: str, partition: int, *replicas: int) -> Any:
        one = {"topic": topic, "partition": partition, "replicas": replicas}
        return minikafka("reassign", command, "-", stdin=json.dumps({"partitions": [one]}).encode())

    assert ran("execute", 0, 9).code == 1
    assert ran("verify", 0, 9).code == 1
    assert ran("verify", 0, 9).lines[1].endswith("not as planned, not in progress")
    assert "has no partition 8" in ran("verify", 8, 1).err
    both = [{"topic": topic, "partition": one, "replicas": [1]} for one in (0, 8)]
    some = minikafka("reassign", "verify", "-", stdin=json.dumps({"partitions": both}).encode())
    assert (some.code, some.lines[2].endswith("partition does not exist")) == (1, True)
    assert minikafka("reassign", "cancel").code == 2


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"partitions": [{"topic": "t"}]}'])
def test_a_malformed_plan(minikafka: Minikafka, text: str) -> None:
    ran = minikafka("reassign", "verify", "-", stdin=text.encode())
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert ran.err.startswith("Error: - is not a reassignment plan: ")
    assert 'expected {"partitions": [' in ran.err


def test_a_plan_with_a_partition_twice() -> None:
    one = {"topic": "t", "partition": 0, "replicas": [1]}
    with pytest.raises(ValueError, match="t-0 is listed twice"):
        reassign.parse_plan({"partitions": [one, one]})


def test_states_of_reassignments() -> None:
    assert reassign.state_of([1, 2], [1, 2], None) == "complete"
    assert reassign.state_of([1, 2], [1, 2, 3], Reassignment((1, 2, 3), (1,), (3,))) == "in progress"
    assert reassign.state_of([1, 2], [2, 1], None) == "not as planned, not in progress"


def test_filters_leave_out_healthy_partitions(minikafka: Minikafka, topic: str) -> None:
    assert minikafka("topics", "describe", topic, "--under-replicated").out.strip() == ""
    assert json.loads(minikafka("topics", "describe", topic, "--unavailable", "--json").out) == []
    whole = Topic("t", partitions=(Partition(0, 1, 0, (1, 2), (1,)), Partition(1, 1, 0, (1, 2), (1, 2))))
    assert part_of(whole, lambda one: len(one.in_sync_replicas) < 2).partitions == whole.partitions[:1]


def result_of(handlers: dict[Any, Any], work: Any) -> Any:
    """The result of `work` with an Admin against a broker with these handlers."""
    network = FakeNetwork({"t": [1]})
    network.broker("a", 1, handlers)

    async def run() -> Any:
        async with Admin("a:1", seams=network.seams(), retry_backoff_ms=1, retry_backoff_max_ms=2) as admin:
            return await work(admin)

    return anyio.run(run)


def test_election_results_are_by_partition() -> None:
    codes = iter([NOT_CONTROLLER, 0])
    requests: list[electing.ElectLeadersRequest] = []

    def answer(request: electing.ElectLeadersRequest, version: int) -> electing.ElectLeadersResponse:
        requests.append(request)
        results = [
            electing.PartitionResult(partition_id=0, error_code=0, error_message=None),
            electing.PartitionResult(partition_id=1, error_code=NOT_NEEDED, error_message="no need"),
        ]
        whole = [electing.ReplicaElectionResult(topic="t", partition_result=results)]
        return electing.ElectLeadersResponse(error_code=next(codes), replica_election_results=whole)

    other = TopicPartition("t", 1)
    handlers = {electing.ElectLeadersRequest: answer}
    found = result_of(handlers, lambda admin: admin.elect_leaders([TP, other], unclean=True))
    assert len(requests) == 2, "not repeated after NOT_CONTROLLER"
    assert (requests[0].election_type, requests[0].topic_partitions[0].partitions) == (1, [0, 1])
    assert (found[TP], type(found[other]), str(found[other])) == (None, ElectionNotNeededError, "t-1: no need")


def test_reassignments_are_requested_and_cancelled() -> None:
    requests: list[altering.AlterPartitionReassignmentsRequest] = []

    def answer(request: Any, version: int) -> altering.AlterPartitionReassignmentsResponse:
        requests.append(request)
        one = altering.ReassignablePartitionResponse(partition_index=0, error_code=85, error_message=None)
        topics = [altering.ReassignableTopicResponse(name="t", partitions=[one])]
        return altering.AlterPartitionReassignmentsResponse(error_message=None, responses=topics)

    async def work(admin: Admin) -> Any:
        await admin.alter_partition_reassignments({TP: [3, 2]}, allow_replication_factor_change=False)
        return await admin.alter_partition_reassignments({TP: None})

    found = result_of({altering.AlterPartitionReassignmentsRequest: answer}, work)
    assert [one.topics[0].partitions[0].replicas for one in requests] == [[3, 2], None]
    assert [one.allow_replication_factor_change for one in requests] == [False, True]
    assert found[TP].code == 85


def test_reassignments_in_progress() -> None:
    def answer(request: Any, version: int) -> listing.ListPartitionReassignmentsResponse:
        one = listing.OngoingPartitionReassignment(
            partition_index=0, replicas=[1, 2, 3], adding_replicas=[3], removing_replicas=[1]
        )
        topics = [listing.OngoingTopicReassignment(name="t", partitions=[one])]
        assert request.topics[0].partition_indexes == [0]
        return listing.ListPartitionReassignmentsResponse(error_message=None, topics=topics)

    handlers = {listing.ListPartitionReassignmentsRequest: answer}
    found = result_of(handlers, lambda admin: admin.list_partition_reassignments([TP]))
    assert found == {TP: Reassignment((1, 2, 3), (3,), (1,))}
    assert reassign.details(TP, found[TP])["adding_replicas"] == [3]


def test_unregistering_an_unknown_broker() -> None:
    def answer(request: Any, version: int) -> unregistering.UnregisterBrokerResponse:
        message = f"no {request.broker_id}"
        return unregistering.UnregisterBrokerResponse(error_code=NOT_REGISTERED, error_message=message)

    with pytest.raises(BrokerIdNotRegisteredError, match="unregistering broker 9: no 9"):
        result_of({unregistering.UnregisterBrokerRequest: answer}, lambda admin: admin.unregister_broker(9))


@pytest.mark.parametrize(
    ("fenced", "replicas", "says"),
    [
        (frozenset[int](), (1,), "Error: broker 3 is live: stop it first\n"),
        (frozenset({3}), (1, 3), "Error: broker 3 has 1 replica: reassign them to other brokers first\n"),
        (frozenset({3}), (1,), ""),
    ],
    ids=["live", "with-replicas", "gone"],
)
def test_only_a_broker_that_is_not_in_use_is_unregistered(
    minikafka: Minikafka, monkeypatch: pytest.MonkeyPatch, fenced: frozenset[int], replicas: tuple[int, ...], says: str
) -> None:
    gone: list[int] = []

    async def cluster(admin: Admin, *, include_fenced: bool) -> ClusterDescription:
        assert include_fenced
        return ClusterDescription("c", 1, [Broker(1, "a", 1, None), Broker(3, "c", 1, None)], fenced)

    async def topics(admin: Admin, names: None) -> dict[str, Topic]:
        return {"t": Topic("t", partitions=(Partition(0, 1, 0, replicas, (1,)),))}

    async def unregister(admin: Admin, node_id: int) -> None:
        gone.append(node_id)

    monkeypatch.setattr("minikafka.client.Admin.describe_cluster", cluster)
    monkeypatch.setattr("minikafka.client.Admin.describe_topics", topics)
    monkeypatch.setattr("minikafka.client.Admin.unregister_broker", unregister)
    ran = minikafka("unregister-broker", "3")
    assert (ran.code, ran.err, gone) == ((1, says, []) if says else (0, "", [3]))
    assert ran.out == ("" if says else "Unregistered broker 3.\n")


def test_a_voter_is_added_with_its_directory_and_addresses() -> None:
    requests: list[adding.AddRaftVoterRequest] = []

    def answer(request: adding.AddRaftVoterRequest, version: int) -> adding.AddRaftVoterResponse:
        requests.append(request)
        return adding.AddRaftVoterResponse(error_code=ErrorCode.DUPLICATE_VOTER, error_message="it is one")

    with pytest.raises(DuplicateVoterError, match="adding voter 4: it is one"):
        result_of(
            {adding.AddRaftVoterRequest: answer},
            lambda admin: admin.add_raft_voter(4, DIRECTORY, {"CONTROLLER": "[::1]:93"}, cluster_id="c"),
        )
    [request] = requests
    assert (request.voter_id, uuid_text(request.voter_directory_id), request.cluster_id) == (4, DIRECTORY, "c")
    assert request.listeners == [adding.Listener(name="CONTROLLER", host="::1", port=93)]
    assert request.ack_when_committed
    with pytest.raises(ValueError, match="is not a uuid"):
        result_of({}, lambda admin: admin.remove_raft_voter(4, "short"))
    with pytest.raises(ValueError, match="is not HOST:PORT"):
        result_of({}, lambda admin: admin.add_raft_voter(4, DIRECTORY, {"CONTROLLER": "host"}))


def test_a_voter_is_removed() -> None:
    requests: list[removing.RemoveRaftVoterRequest] = []

    def answer(request: removing.RemoveRaftVoterRequest, version: int) -> removing.RemoveRaftVoterResponse:
        requests.append(request)
        return removing.RemoveRaftVoterResponse()

    result_of({removing.RemoveRaftVoterRequest: answer}, lambda admin: admin.remove_raft_voter(4, DIRECTORY))
    assert [(one.voter_id, uuid_text(one.voter_directory_id)) for one in requests] == [(4, DIRECTORY)]


def test_directories_of_voters_are_described() -> None:
    def answer(request: Any, version: int) -> describing.DescribeQuorumResponse:
        known = describing.ReplicaState(replica_id=1, replica_directory_id=uuid_from_text(DIRECTORY))
        voters = [known, describing.ReplicaState(replica_id=2)]
        one = describing.ResponsePartitionData(leader_id=1, current_voters=voters)
        topics = [describing.ResponseTopicData(topic_name="__cluster_metadata", partitions=[one])]
        return describing.DescribeQuorumResponse(topics=topics)

    found = result_of({describing.DescribeQuorumRequest: answer}, lambda admin: admin.describe_quorum())
    assert [one.directory_id for one in found.voters] == [DIRECTORY, None]


def test_voters_that_are_fixed_are_not_changed(minikafka: Minikafka, tmp_path: Path) -> None:
    ran = minikafka("quorum", "remove-controller", "1", "--directory-id", DIRECTORY)
    assert ran.code == 1
    assert "Cluster doesn't support removing voter because the kraft.version feature is 0" in ran.err
    ran = minikafka("quorum", "remove-controller", "1")
    assert (ran.code, "fixed by controller.quorum.voters" in ran.err) == (1, True)
    assert "the voters are 1" in minikafka("quorum", "remove-controller", "7").err
    config = tmp_path / "server.properties"
    config.write_text(
        "node.id=4\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER\n"
        "listeners=CONTROLLER://127.0.0.1:9093\ncontroller.quorum.bootstrap.servers=127.0.0.1:1\n"
        f"log.dirs={tmp_path}\n"
    )
    ran = minikafka("quorum", "add-controller", "--config", str(config))
    assert (ran.code, "has no directory.id" in ran.err) == (1, True)
    (tmp_path / "meta.properties").write_text(f"version=1\ndirectory.id={DIRECTORY}\n")
    shown = f"controller 4 with directory id {DIRECTORY} and endpoints CONTROLLER://127.0.0.1:9093"
    assert minikafka("quorum", "add-controller", "--config", str(config), "--dry-run").out == f"Would add {shown}.\n"
    ran = minikafka("quorum", "add-controller", "--config", str(config))
    assert "Cluster doesn't support adding voter because the kraft.version feature is 0" in ran.err
    config.write_text(config.read_text().replace("127.0.0.1:9093", ":9093"))
    assert "set advertised.listeners" in minikafka("quorum", "add-controller", "--config", str(config)).err
    config.write_text("node.id=4\nprocess.roles=broker\ncontroller.quorum.bootstrap.servers=127.0.0.1:1\n"
                      "controller.listener.names=CONTROLLER\n")
    assert "no controller's" in minikafka("quorum", "add-controller", "--config", str(config)).err


def test_names_are_resolved_to_partitions() -> None:
    found = result_of({}, lambda admin: elect_leaders.partitions_of(admin, ["t", "t:0", "u:4"], "b:1"))
    assert found == [TP, TopicPartition("u", 4)]


def test_requests_without_a_controller_are_retried() -> None:
    assert NotControllerError().retriable
