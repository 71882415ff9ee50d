"""The controller listener: what Apache Kafka's controller answers is what ours does, and Kafka's tools work with it.

`controller/` was recorded from a controller with id 1 whose only broker has id 2; ours are a standalone node, and the
only member of a quorum. `controller_quorum/` is not for a standalone node, whose voter is fixed. `controller_follower/`
was recorded from a controller that was not the active one, `controller_settings/` from a broker beside a controller
whose file has other settings.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.controller_process import standalone_node
from support.conversation import read
from support.conversation_player import Connection, play
from support.node import NodeProcess
from support.oracle import needs_oracle, run_tool, tool

from minikafka.cli.clusters.cluster_layout import HOST
from minikafka.cli.local_cluster import LocalCluster
from minikafka.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.timeout(300)
HERE = Path(__file__).parent
ACTIVE = sorted((HERE / "controller").glob("*.txt"))
IN_A_QUORUM = sorted((HERE / "controller_quorum").glob("*.txt"))
FOLLOWING = sorted((HERE / "controller_follower").glob("*.txt"))
OF_TWO_FILES = HERE / "controller_settings" / "settings-of-topics-in-two-files.txt"
PATIENCE_S = 60.0
DIRECTORY = "OE8e3QHzSYiQ4sEexampAA"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[NodeProcess, tuple[str, int]]]:
    node, address = standalone_node(tmp_path_factory.mktemp("alone") / "data")
    with node:
        yield node, address


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"broker.session.timeout.ms": "9000"}
    with LocalCluster(tmp_path_factory.mktemp("quorum"), brokers=1, settings=settings) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"broker.session.timeout.ms": "9000", "controller.quorum.fetch.timeout.ms": "9000"}
    with LocalCluster(tmp_path_factory.mktemp("three"), settings=settings) as cluster:
        yield cluster


def controller_address(cluster: LocalCluster, node_id: int) -> tuple[str, int]:
    return HOST, cluster.nodes[node_id].controller_port


def active(cluster: LocalCluster) -> int:
    """The node of the active controller."""
    connection = Connection(controller_address(cluster, 1))
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            found = connection.ask("DescribeCluster", 1, {"endpoint_type": 2}).controller_id
            if found >= 0:
                return int(found)
        raise AssertionError("no active controller")
    finally:
        connection.close()


@pytest.mark.parametrize("path", ACTIVE, ids=lambda path: path.stem)
def test_a_standalone_node_answers_as_kafkas_controller(
    path: Path, alone: tuple[NodeProcess, tuple[str, int]]
) -> None:
    found = play(read(path), alone[1])
    assert not found, "\n".join(map(str, found)) + "\n" + alone[0].log_tail(20)


@pytest.mark.parametrize("path", ACTIVE + IN_A_QUORUM, ids=lambda path: path.stem)
def test_a_quorum_of_one_answers_as_kafkas_controller(path: Path, quorum: LocalCluster) -> None:
    found = play(read(path), controller_address(quorum, 1))
    assert not found, "\n".join(map(str, found)) + "\n" + quorum.log_tail(1, 20)


@pytest.mark.parametrize("path", FOLLOWING, ids=lambda path: path.stem)
def test_a_controller_that_is_not_active_refuses_as_kafkas(path: Path, three: LocalCluster) -> None:
    follower = next(one for one in three.controller_ids if one != active(three))
    found = play(read(path), controller_address(three, follower))
    assert not found, "\n".join(map(str, found)) + "\n" + three.log_tail(follower, 20)


def test_all_controllers_are_described(three: LocalCluster) -> None:
    connection = Connection(controller_address(three, 2))
    answer = connection.ask("DescribeCluster", 2, {"endpoint_type": 2})
    connection.close()
    assert [(one.broker_id, one.host, one.port) for one in answer.brokers] == [
        (node_id, *controller_address(three, node_id)) for node_id in three.controller_ids
    ]


def test_voters_announce_themselves_to_the_leader_only(three: LocalCluster) -> None:
    """Recorded from Kafka: the cluster is checked first, then the epoch, then the leader, then the voter."""
    leader = active(three)
    follower = next(one for one in three.controller_ids if one != leader)
    connection = Connection(controller_address(three, follower))

    def asked(epoch: int, cluster_id: str | None = None, voter_id: int = leader) -> tuple[ErrorCode, int, int]:
        voter = {"voter_id": voter_id, "voter_directory_id": "00000000-0000-0000-0000-000000000009"}
        body = {"cluster_id": cluster_id, "current_leader_epoch": epoch, **voter}
        answer = connection.ask("UpdateRaftVoter", 0, body)
        return ErrorCode(answer.error_code), answer.current_leader.leader_id, answer.current_leader.leader_epoch

    _, _, epoch = asked(0)
    assert asked(epoch, "wrong") == (ErrorCode.INCONSISTENT_CLUSTER_ID, leader, epoch)
    assert asked(epoch - 1) == (ErrorCode.FENCED_LEADER_EPOCH, leader, epoch)
    assert asked(epoch + 1) == (ErrorCode.UNKNOWN_LEADER_EPOCH, leader, epoch)
    assert asked(epoch, voter_id=-1) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, leader, epoch)
    connection.close()


def test_what_a_fixed_voter_announces_is_accepted_and_changes_nothing(three: LocalCluster) -> None:
    """Recorded from Kafka: any directory, addresses and range of kraft.version that includes 0, of a voter.

    Of the leader itself Kafka's leader stops.
    """
    leader = active(three)
    follower = next(one for one in three.controller_ids if one != leader)
    connection = Connection(controller_address(three, leader))
    quorum = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    before = connection.ask("DescribeQuorum", 2, quorum)
    epoch = before.topics[0].partitions[0].leader_epoch

    def announced(voter_id: int, directory: int = 9, low: int = 0, high: int = 1) -> ErrorCode:
        body = {
            "cluster_id": None,
            "current_leader_epoch": epoch,
            "voter_id": voter_id,
            "voter_directory_id": f"00000000-0000-0000-0000-{directory:012}",
            "listeners": [
                {"name": "CONTROLLER", "host": "localhost", "port": 7},
                {"name": "OTHER", "host": "h", "port": 9},
            ],
            "k_raft_version_feature": {"min_supported_version": low, "max_supported_version": high},
        }
        return ErrorCode(connection.ask("UpdateRaftVoter", 0, body).error_code)

    assert announced(follower) == announced(follower, 10) == announced(leader) == ErrorCode.NONE
    assert announced(follower, high=0) == announced(follower, high=5) == ErrorCode.NONE
    assert announced(follower, low=1) == announced(follower, low=-1) == ErrorCode.INVALID_REQUEST
    assert announced(follower, high=-1) == ErrorCode.INVALID_REQUEST
    assert announced(9) == ErrorCode.VOTER_NOT_FOUND
    assert connection.ask("DescribeQuorum", 2, quorum).nodes == before.nodes
    connection.close()


@pytest.mark.slow
def test_settings_of_topics_in_the_files_of_a_controller_and_a_broker(tmp_path: Path) -> None:
    """The controller's file names a listener between brokers, which it does not have: Kafka takes that, too."""
    of_broker = {"num.partitions": "5", "log.retention.ms": "7000000"}
    of_controller = {
        "inter.broker.listener.name": "PLAINTEXT",
        "num.partitions": "3",
        "log.retention.ms": "5000000",
        "log.segment.bytes": "2000000",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "true",
        "log.cleanup.policy": "compact",
    }
    files = {1: of_broker, 2: of_controller}
    with LocalCluster(tmp_path, brokers=1, controllers=1, isolated=True, node_settings=files) as cluster:
        found = play(read(OF_TWO_FILES), (HOST, cluster.nodes[1].port))
        assert not found, "\n".join(map(str, found))


def bootstrap(cluster: LocalCluster, *node_ids: int) -> list[str]:
    places = [controller_address(cluster, node_id) for node_id in node_ids or cluster.controller_ids]
    return ["--bootstrap-controller", ",".join(f"{host}:{port}" for host, port in places)]


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_metadata_quorum(three: LocalCluster) -> None:
    follower = next(one for one in three.controller_ids if one != active(three))
    said = tool("metadata-quorum", *bootstrap(three, follower), "describe", "--status")
    assert "CurrentVoters" in said
    assert f"CONTROLLER://{HOST}:{three.nodes[1].controller_port}" in said
    said = tool("metadata-quorum", *bootstrap(three), "describe", "--replication")
    roles = sorted(line.split()[-1] for line in said.splitlines()[1:] if line.strip())
    assert roles == ["Follower", "Follower", "Leader"]


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("at_controllers", [False, True], ids=["by way of a broker", "at the controllers"])
def test_kafka_metadata_quorum_with_fixed_voters(three: LocalCluster, tmp_path: Path, at_controllers: bool) -> None:
    """The words of the tool are those that it says of Kafka with kraft.version 0."""
    place = bootstrap(three) if at_controllers else ["--bootstrap-server", three.bootstrap]
    ids = f"cluster.id={DIRECTORY}\ndirectory.id={DIRECTORY}\n"
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=4\n{ids}")
    (tmp_path / "controller.properties").write_text(
        "node.id=4\nprocess.roles=controller\ncontroller.listener.names=CONTROLLER\n"
        f"listeners=CONTROLLER://127.0.0.1:9\nlog.dirs={tmp_path}\n"
        "controller.quorum.bootstrap.servers=127.0.0.1:9\n"
    )
    adding = [*place, "--command-config", str(tmp_path / "controller.properties"), "add-controller"]
    shown = f"controller 4 with directory id {DIRECTORY} and endpoints: CONTROLLER://127.0.0.1:9"
    assert tool("metadata-quorum", *adding, "--dry-run").strip() == f"DRY RUN of adding {shown}"
    removing = [*place, "remove-controller", "--controller-id", "1", "--controller-directory-id"]
    for words, command in (("adding", adding), ("removing", [*removing, DIRECTORY])):
        done = run_tool("metadata-quorum", *command)
        assert done.returncode == 1
        refusal = f"Cluster doesn't support {words} voter because the kraft.version feature is 0"
        assert f"UnsupportedVersionException: {refusal}" in done.stderr + done.stdout


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_configs(three: LocalCluster) -> None:
    arguments = [*bootstrap(three), "--entity-type", "brokers", "--entity-default"]
    tool("configs", *arguments, "--alter", "--add-config", "log.retention.ms=123456789")
    assert "log.retention.ms=123456789" in tool("configs", *arguments, "--describe")
    tool("configs", *arguments, "--alter", "--delete-config", "log.retention.ms")
    assert "log.retention.ms" not in tool("configs", *arguments, "--describe")


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_cluster_and_features(three: LocalCluster) -> None:
    assert "Cluster ID: " in tool("cluster", "cluster-id", *bootstrap(three))
    said = tool("cluster", "list-endpoints", *bootstrap(three))
    assert [line.split()[0] for line in said.splitlines()[1:]] == ["1", "2", "3"]
    assert "metadata.version" in tool("features", *bootstrap(three), "describe")


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_features(three: LocalCluster) -> None:
    def features(*words: str) -> str:
        return tool("features", *bootstrap(three), *words)

    def level(name: str) -> str:
        [line] = [line for line in features("describe").splitlines() if f"Feature: {name} " in line]
        return line.partition("FinalizedVersionLevel: ")[2].split()[0]

    assert "can be downgraded to 1" in features("downgrade", "--feature", "transaction.version=1", "--dry-run")
    assert level("transaction.version") == "2"
    assert "was downgraded to 1" in features("downgrade", "--feature", "transaction.version=1")
    assert level("transaction.version") == "1"
    assert "was upgraded to 2" in features("upgrade", "--feature", "transaction.version=2")
    assert "can be disabled" in features("disable", "--feature", "group.version", "--dry-run")
    assert level("metadata.version") == "4.3-IV0"
    done = run_tool("features", *bootstrap(three), "downgrade", "--metadata", "4.2-IV1")
    assert done.returncode != 0
    assert "might delete metadata information" in done.stdout + done.stderr


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_brokers_are_no_controllers_for_kafkas_tools(three: LocalCluster) -> None:
    done = run_tool("metadata-quorum", "--bootstrap-controller", three.address(1), "describe", "--status")
    assert done.returncode != 0
    assert "MismatchedEndpointType" in done.stderr + done.stdout
