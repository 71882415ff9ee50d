"""Plays every conversation against real server processes and compares the responses with Apache Kafka's.

One node, or one cluster, serves all conversations that need the same settings, one after another. Those in `cluster`
need several nodes. `later.txt` lists conversations whose feature is not implemented; one that passes must be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conversation import Conversation, read
from support.conversation_player import ANSWER_TIMEOUT_S, play, use_up_producer_id_zero
from support.node import NodeProcess
from support.oracle import Oracle, needs_oracle
from support.oracle_cluster import OracleCluster

from minikafka.cli.clusters.cluster_layout import HOST, ClusterError
from minikafka.cli.local_cluster import LocalCluster
from minikafka.protocol.apis import APIS

pytestmark = pytest.mark.timeout(300)
HERE = Path(__file__).parent
FILES = sorted([*HERE.glob("*/*/*.txt"), *HERE.glob("cluster/*.txt")])
UNHURRIED = {
    "group.initial.rebalance.delay.ms": "0",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.fetch.timeout.ms": "9000",
}
"""Long sessions, so that a busy machine does not fence a node."""
OF_CLUSTERS = [path for path in FILES if path.parent.name == "cluster"]
FOLDERS = sorted({path.parent for path in FILES} - {path.parent for path in OF_CLUSTERS})
ONE_OF_EACH_FOLDER = [next(iter(sorted(folder.glob("*.txt")))) for folder in FOLDERS]


def later() -> dict[str, str]:
    """Conversations that are not expected to pass yet, with the reason."""
    lines = (HERE / "later.txt").read_text().splitlines()
    named = (line.partition(":") for line in lines if line and not line.startswith("#"))
    return {name.strip(): reason.strip() for name, _, reason in named}


def name_of(path: Path) -> str:
    """`own/fetch/diverging-epochs`."""
    return path.relative_to(HERE).with_suffix("").as_posix()


def case(path: Path, reasons: dict[str, str]) -> object:
    reason = reasons.get(name_of(path))
    marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason is not None else []
    return pytest.param(path, id=name_of(path), marks=marks)


class Nodes:
    """Server processes by their settings, started when first needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: dict[tuple[int, frozenset[tuple[str, str]]], NodeProcess | LocalCluster] = {}
        self._broken: dict[LocalCluster, ClusterError] = {}

    def serving(self, conversation: Conversation) -> NodeProcess | LocalCluster:
        """The node or cluster for a conversation; dead processes are restarted."""
        key = conversation.nodes, frozenset(conversation.settings.items())
        folder = self._folder / f"nodes-{len(self._nodes)}"
        if key not in self._nodes and conversation.nodes == 1:
            self._nodes[key] = NodeProcess(folder, settings=conversation.settings)
        elif key not in self._nodes:
            settings = UNHURRIED | conversation.settings
            self._nodes[key] = LocalCluster(folder, brokers=conversation.nodes, settings=settings)
        found = self._nodes[key]
        if isinstance(found, NodeProcess) and not found.running:
            found.start()
            use_up_producer_id_zero(found.address, by_admin="sasl.enabled.mechanisms" in conversation.settings)
        elif isinstance(found, LocalCluster) and (dead := [n for n in found.node_ids if not found.running(n)]):
            self._start(found, dead)
        return found

    def _start(self, cluster: LocalCluster, dead: list[int]) -> None:
        """Restarts the dead nodes; one that failed to start once is not tried again."""
        if cluster in self._broken:
            raise self._broken[cluster]
        try:
            cluster.start(*dead, timeout_s=60)
        except ClusterError as error:
            cluster.kill()
            self._broken[cluster] = error
            raise
        use_up_producer_id_zero(addresses(cluster)[0])

    def stop(self) -> None:
        for node in self._nodes.values():
            node.kill()


def addresses(nodes: NodeProcess | Oracle | LocalCluster) -> list[tuple[str, int]]:
    """The addresses of the nodes, by id from 1."""
    if isinstance(nodes, LocalCluster):
        return [(HOST, nodes.nodes[node_id].port) for node_id in nodes.broker_ids]
    return [nodes.address]


def log_tail(nodes: NodeProcess | Oracle | LocalCluster) -> str:
    if isinstance(nodes, LocalCluster):
        return "\n".join(f"node {node_id}: {nodes.log_tail(node_id, 12)}" for node_id in nodes.node_ids)
    return nodes.log_tail(20)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nodes]:
    pool = Nodes(tmp_path_factory.mktemp("conversations"))
    yield pool
    pool.stop()


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    with Oracle(tmp_path_factory.mktemp("oracle") / "kafka") as oracle:
        use_up_producer_id_zero(oracle.address)
        yield oracle
        oracle.terminate()


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OracleCluster]:
    with OracleCluster(tmp_path_factory.mktemp("oracle-cluster")) as oracle:
        use_up_producer_id_zero(addresses(oracle)[0])
        yield oracle


def check(conversation: Conversation, nodes: NodeProcess | Oracle | LocalCluster) -> None:
    patience_s = 2.0 if name_of(conversation.path) in later() else ANSWER_TIMEOUT_S
    differences = play(conversation, *addresses(nodes), patience_s=patience_s)
    told = "\n".join(map(str, differences))
    assert not differences, f"{conversation.title}\n{told}\nthe log ends:\n{log_tail(nodes)}"


@pytest.mark.slow
@pytest.mark.parametrize("path", [case(path, later()) for path in FILES])
def test_the_responses_are_those_of_kafka(path: Path, nodes: Nodes) -> None:
    conversation = read(path)
    check(conversation, nodes.serving(conversation))


@needs_oracle
@pytest.mark.oracle
@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("path", ONE_OF_EACH_FOLDER, ids=name_of)
def test_the_player_agrees_with_kafka_itself(path: Path, kafka: Oracle) -> None:
    conversation = read(path)
    if conversation.settings:
        pytest.skip("needs a node of its own settings")
    check(conversation, kafka)


@needs_oracle
@pytest.mark.oracle
@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("path", OF_CLUSTERS, ids=name_of)
def test_the_player_agrees_with_a_cluster_of_kafka(path: Path, kafka_cluster: OracleCluster) -> None:
    conversation = read(path)
    if conversation.settings:
        pytest.skip("needs a cluster of its own settings")
    check(conversation, kafka_cluster)


@pytest.mark.parametrize(
    ("expected", "noticed"),
    [
        ('a< {"brokers": [{"node_id": 77}]}', "77"),
        ("a< closed", "closed"),
        ("a< silence 30000", "silence"),
    ],
)
def test_a_difference_is_reported(expected: str, noticed: str, nodes: Nodes, tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text('# wrong\na> Metadata v9 {"topics": []}\n' + expected)
    conversation = read(path)
    (difference, *_) = play(conversation, *addresses(nodes.serving(conversation)))
    assert noticed in str(difference)


def test_every_listed_conversation_exists() -> None:
    assert set(later()) <= {name_of(path) for path in FILES}


def test_every_conversation_has_a_title_and_an_answer() -> None:
    for path in FILES:
        conversation = read(path)
        assert conversation.title, path
        assert any("Answer" in type(step).__name__ or "Closed" in type(step).__name__ for _, step in conversation.steps)


OF_SECURITY = {"broker_authorization", "security_acls", "delegation_tokens"}
"""Folders of conversations of many APIs with nodes that have an authorizer, or clients that log in."""


def test_four_conversations_of_our_own_for_every_api() -> None:
    names = {folder.name: len(list(folder.glob("*.txt"))) for folder in (HERE / "own").iterdir() if folder.is_dir()}
    assert {name for name, count in names.items() if count < 4} == set()
    apis = {name.replace("_", "") for name in names.keys() - OF_SECURITY}
    assert apis <= {api.name.lower() for api in APIS.values()}
