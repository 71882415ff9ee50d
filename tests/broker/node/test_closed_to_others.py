"""What a node without security leaves to others: no right to its files, and one warning if they reach its port."""

import os
from pathlib import Path

import pytest
from confluent_kafka import Producer
from support.node import NodeProcess

OPEN = "every client that reaches this node is let in, without authentication"


def test_other_users_have_no_right_to_the_files_of_a_node(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with NodeProcess(tmp_path / "data") as node:
            producer = Producer({"bootstrap.servers": node.bootstrap})
            producer.produce("t", b"x")
            assert producer.flush(30) == 0
            assert node.terminate() == 0
    finally:
        os.umask(before)
    files = [tmp_path / "data", *(tmp_path / "data").rglob("*")]
    assert any(path.suffix == ".log" for path in files)
    assert [path.name for path in files if path.stat().st_mode & 0o007] == []


@pytest.mark.parametrize(("host", "count"), [("127.0.0.1", 0), ("0.0.0.0", 1)])
def test_a_listener_that_is_open_to_the_world_is_named_once(host: str, count: int, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data", arguments=("--host", host)) as node:
        assert node.terminate() == 0
    lines = [line for line in node.log_path.read_text().splitlines() if OPEN in line]
    assert len(lines) == count
    assert all(f"PLAINTEXT://{host}:" in line for line in lines)
