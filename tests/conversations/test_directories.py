"""Replicas in two data directories: what Apache Kafka answers is what a server process answers (KIP-113, KIP-1066)."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.directory_questions import differences
from support.node import NodeProcess

pytestmark = pytest.mark.timeout(120)
OFFLINE = Path(__file__).parent / "offline_directory" / "an-offline-directory-is-described.txt"
FILES = sorted((Path(__file__).parent / "directories").glob("*.txt"))


@pytest.fixture(scope="module")
def directories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("directories")
    return {"{a}": str(folder / "a"), "{b}": str(folder / "b")}


@pytest.fixture(scope="module")
def node(directories: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    settings = {"log.dirs": ",".join(directories.values())}
    with NodeProcess(tmp_path_factory.mktemp("node"), settings=settings) as running:
        yield running


@pytest.mark.slow
def test_an_offline_directory_is_described_as_in_kafka(tmp_path: Path) -> None:
    """Another file is in its place when the process starts."""
    directories = {"{a}": str(tmp_path / "a"), "{b}": str(tmp_path / "b")}
    settings = {"log.dirs": ",".join(directories.values()), "metadata.log.dir": directories["{a}"]}
    with NodeProcess(tmp_path / "node", settings=settings) as node:
        node.terminate()
        shutil.rmtree(tmp_path / "b")
        (tmp_path / "b").write_text("not a directory")
        node.start()
        found = differences(OFFLINE, node.address, directories)
        assert not found, "\n".join(found) + "\n" + node.log_tail(20)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_directories_are_altered_as_in_kafka(path: Path, node: NodeProcess, directories: dict[str, str]) -> None:
    found = differences(path, node.address, directories)
    assert not found, "\n".join(found) + "\n" + node.log_tail(20)
