"""An operator mounts a data directory again, of which a replica was moved meanwhile."""

from __future__ import annotations

from random import Random

import pytest

from minikafka.storage.disks.checkpoint_files import PARTITION_METADATA, write_topic_id
from simulation.faults.mounting import mount
from simulation.world.cluster import Host, WallClock
from simulation.world.world import World

MOVED, STAYED = bytes([1] * 16), bytes([2] * 16)


@pytest.mark.parametrize(("elsewhere", "left"), [(MOVED, ["t-1"]), (STAYED, ["t-0", "t-1"])])
def test_the_replica_that_has_another_directory_now_is_removed(elsewhere: bytes, left: list[str]) -> None:
    world = World(1)
    host = Host("node-1", 1, {"log.dirs": "/data/a,/data/b"}, WallClock(world))
    host.disk = host.empty_disk(Random(1))
    put(host, "/data/b/t-0", MOVED)
    put(host, "/data/b/t-1", MOVED)
    host.disk.unmount("/data/b")
    put(host, "/data/a/t-0", elsewhere)
    mount(host, "/data/b")
    assert host.disk.list("/data/b") == left
    assert host.disk.list("/data/a") == ["t-0"]
    world.close()


def put(host: Host, path: str, topic_id: bytes) -> None:
    host.disk.make_directory(path)
    write_topic_id(host.disk, f"{path}/{PARTITION_METADATA}", topic_id, sync=True)
