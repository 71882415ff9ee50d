"""Plays every conversation against a real server process and demands Apache Kafka's answers.

One node serves all conversations that need the same settings, one after another, as a client of many would meet it.
`later.txt` names conversations whose feature is still to come; one that begins to pass has to leave the list.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conversation import Conversation, read
from support.conversation_player import play, use_up_producer_id_zero
from support.node import NodeProcess, ServerProcess
from support.oracle import Oracle, needs_oracle

from minikafka.protocol.apis import APIS

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*/*/*.txt"))
ONE_OF_EACH_FOLDER = [next(iter(sorted(folder.glob("*.txt")))) for folder in sorted(HERE.glob("*/*/"))]


def later() -> dict[str, str]:
    """Conversations not expected to pass yet, with the reason."""
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
    """Server processes by the settings they run with, started when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._nodes: dict[frozenset[tuple[str, str]], NodeProcess] = {}

    def serving(self, conversation: Conversation) -> NodeProcess:
        """The node for a conversation; a new process for one that has died."""
        key = frozenset(conversation.settings.items())
        if key not in self._nodes:
            folder = self._folder / f"node-{len(self._nodes)}"
            self._nodes[key] = NodeProcess(folder, settings=conversation.settings)
        node = self._nodes[key]
        if not node.running:
            node.start()
            use_up_producer_id_zero(node.address)
        return node

    def stop(self) -> None:
        for node in self._nodes.values():
            node.kill()


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


def check(conversation: Conversation, node: ServerProcess) -> None:
    patience_s = 2.0 if name_of(conversation.path) in later() else 15.0
    differences = play(conversation, node.address, patience_s)
    told = "\n".join(map(str, differences))
    assert not differences, f"{conversation.title}\n{told}\nthe node's log ends:\n{node.log_tail(20)}"


@pytest.mark.slow
@pytest.mark.parametrize("path", [case(path, later()) for path in FILES])
def test_answers_as_kafka_did(path: Path, nodes: Nodes) -> None:
    conversation = read(path)
    check(conversation, nodes.serving(conversation))


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("path", ONE_OF_EACH_FOLDER, ids=name_of)
def test_the_player_agrees_with_kafka_itself(path: Path, kafka: Oracle) -> None:
    conversation = read(path)
    if conversation.settings:
        pytest.skip("needs a node of its own settings")
    check(conversation, kafka)


@pytest.mark.parametrize(
    ("expected", "noticed"),
    [
        ('a< {"brokers": [{"node_id": 77}]}', "77"),
        ("a< closed", "closed"),
        ("a< silence 300", "silence"),
    ],
)
def test_what_is_not_as_expected_is_noticed(expected: str, noticed: str, nodes: Nodes, tmp_path: Path) -> None:
    path = tmp_path / "wrong.txt"
    path.write_text('# wrong\na> Metadata v9 {"topics": []}\n' + expected)
    conversation = read(path)
    (difference, *_) = play(conversation, nodes.serving(conversation).address)
    assert noticed in str(difference)


def test_what_comes_later_is_there() -> None:
    assert set(later()) <= {name_of(path) for path in FILES}


def test_every_conversation_has_a_title_and_an_answer() -> None:
    for path in FILES:
        conversation = read(path)
        assert conversation.title, path
        assert any("Answer" in type(step).__name__ or "Closed" in type(step).__name__ for _, step in conversation.steps)


def test_four_conversations_of_our_own_for_every_api() -> None:
    names = {folder.name: len(list(folder.glob("*.txt"))) for folder in (HERE / "own").iterdir() if folder.is_dir()}
    assert {name for name, count in names.items() if count < 4} == set()
    assert {name.replace("_", "") for name in names} <= {api.name.lower() for api in APIS.values()}
