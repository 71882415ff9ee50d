"""`minikafka dump-log` of files that are damaged, or something else: it says so, and the exit code is 1."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from support.command_line import Minikafka
from support.node import NodeProcess

from minikafka.client.blocking import Admin

TEXTS = [
    *("partition.metadata", "meta.properties", "server.properties", "quorum-state", "synced-offset"),
    ".kafka_cleanshutdown",
]
NAMES = [
    *("{:020}.log", "{:020}-0000000001.checkpoint", "bootstrap.checkpoint"),
    *("{:020}.index", "{:020}.timeindex", "{:020}.txnindex", "{:020}.snapshot"),
    *("leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
    *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", *TEXTS),
]


@pytest.fixture(scope="module")
def files(node: NodeProcess) -> list[Path]:
    """Good files of a running node that are not empty, one of each kind."""
    found = {path.suffix: path for path in sorted(node.data_dir.glob("*/*")) if path.stat().st_size}
    return [path for suffix, path in found.items() if suffix in (".log", ".index", ".timeindex", ".snapshot")]


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("name", NAMES)
def test_garbage_is_damage(name: str, seed: int, minikafka: Minikafka, tmp_path: Path) -> None:
    bits = random.Random(seed)
    file = tmp_path / name.format(0)
    file.write_bytes(bits.randbytes(bits.choice((1, 5, 61, 96, 240, 1001, 4099))))
    ran = minikafka("dump-log", str(file))
    assert (ran.code, ran.err) == (1, f"Error: damaged, or not what the name says: {file}\n"), ran
    assert len(ran.lines) > 1


@pytest.mark.parametrize("words", [[], ["--json"], ["--headers-only"]])
def test_damage_in_the_middle_of_a_log(
    words: list[str], minikafka: Minikafka, topic: str, node: NodeProcess, tmp_path: Path
) -> None:
    for line in (b"one\n", b"two\n"):
        assert minikafka("produce", topic, stdin=line).code == 0
    data = (node.data_dir / f"{topic}-0" / f"{0:020}.log").read_bytes()
    good, cut, broken = (tmp_path / name for name in ("1.log", "2.log", "3.log"))
    good.write_bytes(data)
    cut.write_bytes(data[:-5])
    broken.write_bytes(data[: len(data) // 2] + bytes(16) + data[len(data) // 2 + 16 :])
    assert minikafka("dump-log", *words, str(good)).code == 0
    assert minikafka("dump-log", *words, "--max-bytes", str(len(data) - 5), str(good)).code == 0
    ran = minikafka("dump-log", *words, str(cut), str(good), str(broken))
    assert ran.code == 1
    assert f"damaged, or not what the name says: {cut}, {broken}" in ran.err.splitlines()[-1]
    assert "one" in ran.out or words == ["--headers-only"]


@pytest.mark.parametrize("name", [one for one in NAMES if "{" not in one])
def test_an_empty_text_file_is_damage_but_for_checkpoints(name: str, minikafka: Minikafka, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    assert minikafka("dump-log", str(tmp_path / name)).code == (0 if name.endswith("checkpoint") else 1)


def test_files_of_a_node_are_good(minikafka: Minikafka, files: list[Path]) -> None:
    assert minikafka("dump-log", *map(str, files)).code == 0


@pytest.mark.slow
def test_every_file_that_a_node_has_written_is_good(minikafka: Minikafka, tmp_path: Path) -> None:
    with NodeProcess(tmp_path / "data") as node:
        with Admin(node.bootstrap) as admin:
            admin.create_topic("t", partitions=1)
        assert node.terminate() == 0
    found = [path for path in node.data_dir.glob("**/*") if path.is_file() and path.name != ".lock"]
    assert {path.name for path in found} >= {".kafka_cleanshutdown", "meta.properties", "replication-offset-checkpoint"}
    ran = minikafka("dump-log", *map(str, found))
    assert (ran.code, ran.err) == (0, "")


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/full", "pipe", "."])
def test_what_is_no_regular_file_is_not_read(
    name: str, minikafka: Minikafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    ran = minikafka("dump-log", name)
    assert (ran.code, ran.out) == (2, "")
    assert ("is a directory: give the files in it" if name == "." else "is not a regular file") in ran.err


@pytest.mark.parametrize(("log", "named"), [("a.log", "*.log"), ("t-0/a.log", "*/*.log"), (None, "*.log")])
def test_the_logs_of_a_directory_are_named(log: str | None, named: str, minikafka: Minikafka, tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir()
    if log is not None:
        (directory / log).parent.mkdir(exist_ok=True)
        (directory / log).touch()
    ran = minikafka("dump-log", str(directory))
    assert f"such as {directory}/{named} (" in ran.err
