"""Replicas in two data directories: what Apache Kafka answers is what a server process answers (KIP-113, KIP-1066)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.directory_questions import differences
from support.node import NodeProcess

pytestmark = pytest.mark.timeout(120)
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_directories_are_altered_as_in_kafka(path: Path, node: NodeProcess, directories: dict[str, str]) -> None:
    found = differences(path, node.address, directories)
    assert not found, "\n".join(found) + "\n" + node.log_tail(20)
