"""A data directory that was missing comes back, in the hands of an operator."""

from __future__ import annotations

from minikafka.storage.disks.checkpoint_files import PARTITION_METADATA, BrokenCheckpoint, read_topic_id
from simulation.world.cluster import Host
from simulation.world.disk import SimulatedDisk


def mount(host: Host, path: str) -> None:
    """Mount a directory again, without the replicas that have another directory now.

    A replica that was moved while the directory was missing would be in both, and the node refuses to start until one
    is moved away: as its message says, usually that in the directory that was missing.
    """
    host.disk.mount(path)
    for other in host.data_directories:
        if other != path:
            for name in set(_logs_in(host.disk, path)) & set(_logs_in(host.disk, other)):
                ids = {_topic_id(host.disk, f"{one}/{name}") for one in (path, other)}
                if len(ids) == 1:
                    host.disk.remove_tree(f"{path}/{name}")
    host.disk.sync_directory(path)


def _logs_in(disk: SimulatedDisk, path: str) -> list[str]:
    return [name for name in disk.list(path) if name.rpartition("-")[2].isdigit()] if disk.exists(path) else []


def _topic_id(disk: SimulatedDisk, path: str) -> bytes | None:
    try:
        return read_topic_id(disk, f"{path}/{PARTITION_METADATA}")
    except BrokenCheckpoint:
        return None
