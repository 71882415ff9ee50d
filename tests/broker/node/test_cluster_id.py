"""A cluster id that the operator has chosen: new directories get it, those of another cluster are refused."""

from __future__ import annotations

from random import Random

import pytest
from support.controllers import image_of

from minikafka.broker.node.cluster_id import choose_cluster_id, chosen_cluster_id
from minikafka.controller.metadata.image import Image
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.storage.directories.directory_identity import WrongDirectory
from minikafka.storage.disks.checkpoint_files import read_properties
from minikafka.storage.disks.memory_disk import MemoryDisk

DIRECTORIES = ("/a", "/b", "/metadata")


def static(node_id: int = 1) -> StaticSettings:
    return StaticSettings(node_id, {"node.id": str(node_id), "log.dirs": "/a,/b", "metadata.log.dir": "/metadata"})


def choose(disk: MemoryDisk, cluster_id: str, node_id: int = 1) -> None:
    choose_cluster_id(disk, static(node_id), cluster_id, Random(1))


def started(disk: MemoryDisk) -> Image:
    """The metadata of a controller that has started."""
    return image_of(disk, log_dirs="/a,/b", metadata_log_dir="/metadata")


def stored(disk: MemoryDisk) -> set[str]:
    return {(read_properties(disk, f"{path}/meta.properties") or {})["cluster.id"] for path in DIRECTORIES}


def test_new_directories_get_the_id_and_the_cluster_has_it() -> None:
    disk = MemoryDisk()
    choose(disk, "5L6g3nShT-eMCtK--X86sw")
    assert stored(disk) == {"5L6g3nShT-eMCtK--X86sw"}
    assert started(disk).cluster_id == "5L6g3nShT-eMCtK--X86sw"
    choose(disk, "5L6g3nShT-eMCtK--X86sw")


def test_directories_of_another_cluster_or_node_are_refused_and_left_as_they_are() -> None:
    disk = MemoryDisk()
    choose(disk, "mine")
    with pytest.raises(WrongDirectory, match="CLUSTER_ID is other, but /metadata and /a and /b belong to cluster mine"):
        choose(disk, "other")
    with pytest.raises(WrongDirectory, match=r"belongs to node 1, but node\.id is 2"):
        choose(disk, "mine", node_id=2)
    assert stored(disk) == {"mine"}


def test_a_start_that_ended_halfway_is_repeated() -> None:
    disk = MemoryDisk()
    choose(disk, "mine")
    for path in ("/a", "/b"):
        disk.remove(f"{path}/meta.properties")
    choose(disk, "mine")
    assert started(disk).cluster_id == "mine"
    assert stored(disk) == {"mine"}


def test_the_locks_are_free_for_the_node() -> None:
    disk = MemoryDisk()
    choose(disk, "mine")
    disk.lock("/a/.lock")


def test_the_first_variable_that_is_set_names_the_cluster() -> None:
    assert chosen_cluster_id({"CLUSTER_ID": "", "KAFKA_NODE_ID": "1"}) is None
    assert chosen_cluster_id({"KAFKA_KRAFT_CLUSTER_ID": "a"}) == "a"
    assert chosen_cluster_id({"CLUSTER_ID": "b", "KAFKA_KRAFT_CLUSTER_ID": "a"}) == "b"
