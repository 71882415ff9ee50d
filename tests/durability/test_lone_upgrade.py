"""A lone node takes over the directory of an older version, whose metadata log had no quorum, and gives it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.controller_process import free_port
from support.node import NodeProcess
from support.old_version import OLD_VERSION, old_version

from minikafka.client.blocking import Admin, Consumer, Producer

pytestmark = [pytest.mark.sweep, pytest.mark.timeout(300)]
LAST_WITHOUT_A_QUORUM = "a6efd6bd"
"""The last commit whose lone nodes kept their metadata without a quorum."""


class OldNode(NodeProcess):
    """A node that runs the code in `old`."""

    def __init__(self, data_dir: Path, old: Path, **arguments: Any) -> None:
        super().__init__(data_dir, **arguments)
        self._old = old

    def command(self) -> list[str]:
        return ["env", f"PYTHONPATH={self._old}", *super().command()]


def use(node: NodeProcess, value: str, *, killed: bool) -> list[str]:
    """Write and create a topic at a node, and end it; returns all values and topics."""
    with node, Admin(node.bootstrap) as admin:
        admin.create_topic(value, partitions=3, replication_factor=1)
        if "values" not in admin.list_topics():
            admin.create_topic("values", partitions=1, replication_factor=1)
        with Producer(node.bootstrap) as producer:
            producer.send("values", value.encode()).result(30_000)
        found = [*sorted(name for name in admin.list_topics() if name != "values")]
        with Consumer("values", bootstrap_servers=node.bootstrap, auto_offset_reset="earliest") as consumer:
            while len(found) < 2 * len([one for one in found if one.startswith("t")]):
                found += [f"value {(record.value or b'').decode()}" for record in consumer.poll(timeout_ms=10_000)]
        node.kill() if killed else node.terminate()
    assert "Traceback" not in node.log_tail(10_000)
    return found


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
@pytest.mark.parametrize("commit", [OLD_VERSION, LAST_WITHOUT_A_QUORUM])
def test_a_lone_node_goes_to_the_new_version_and_back(tmp_path: Path, commit: str, killed: bool) -> None:
    old, data = old_version(tmp_path / "old", commit), tmp_path / "data"
    topics: list[str] = []
    for number, is_old in enumerate((True, False, False, True, False)):
        topics.append(f"t{number}")
        node = OldNode(data, old) if is_old else NodeProcess(data)
        assert use(node, topics[-1], killed=killed) == [*topics, *(f"value {one}" for one in topics)]


def test_a_lone_node_becomes_a_voter_of_a_quorum(tmp_path: Path) -> None:
    """Settings that name the voters are all it takes; other nodes can join then."""
    data, port, controller = tmp_path / "data", free_port(), free_port()
    assert use(NodeProcess(data), "t0", killed=True) == ["t0", "value t0"]
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
    }
    node = NodeProcess(data, settings=settings, port=port)
    assert use(node, "t1", killed=False) == ["t0", "t1", "value t0", "value t1"]
