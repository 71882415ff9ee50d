"""Faults of disks that a node finds at its start: failing, read-only, missing, wiped and old directories."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from simulation.faults.chaos import Chaos
from simulation.faults.disks import beside_metadata, downtime_s, duration_s
from simulation.faults.mounting import mount
from simulation.world.cluster import Host

STOP_S = 4.0


def _replicas_of(host: Host) -> list[str]:
    """The directories that may be lost: not a voter's metadata log and vote, since Raft does not survive that."""
    if host.settings["process.roles"] == "broker":
        return host.directories
    return beside_metadata(host)


def between_processes(
    chaos: Chaos, random: Random, host: Host, allowed: Callable[[Host], bool], change: Callable[[], None]
) -> None:
    """Stop or kill a node, change its disk, and start it again."""
    pause_s = downtime_s(random)

    def down() -> None:
        if host.is_running and not chaos.may_kill(host):
            return
        if allowed(host):
            chaos.cluster.kill(host)
            change()
            chaos.count("disk changed between processes")
        chaos.later(pause_s, chaos.cluster.start, host)

    if random.random() < 0.5:
        chaos.cluster.stop(host)
        chaos.later(STOP_S, down)
    else:
        down()


# -- failing at start ------------------------------------------------------------------------------------------------


def metadata_fails(chaos: Chaos, random: Random) -> None:
    """A node finds its metadata log on a directory that fails or is read-only, refuses to start, and is started again
    when that has ended."""
    host = chaos.any_host(random)
    _fails_at_start(chaos, random, host, host.metadata_directory)


def data_fails(chaos: Chaos, random: Random) -> None:
    """One of several data directories fails or is read-only at start, beside the metadata log."""
    host = chaos.any_host(random)
    paths = beside_metadata(host)
    if paths:
        _fails_at_start(chaos, random, host, random.choice(paths))


def _fails_at_start(chaos: Chaos, random: Random, host: Host, path: str) -> None:
    what = random.choice(("read only", "all", "writes", "reads"))

    def change() -> None:
        chaos.tell(f"{host.name}: {path} fails at start: {what}")
        if what == "read only":
            host.disk.read_only(path)
        else:
            chaos.loses_records(host)
            host.disk.fail_directory(path, what)

    def end() -> None:
        host.disk.writable(path)
        host.disk.repair_directory(path)
        host.disk.mount_again(path)

    _change_and_repair(chaos, random, host, chaos.may_lose_records, change, end)


def _change_and_repair(
    chaos: Chaos,
    random: Random,
    host: Host,
    allowed: Callable[[Host], bool],
    change: Callable[[], None],
    end: Callable[[], None],
) -> None:
    """Change the disk of a host and pin it; later repair the disk and unpin the host, if this fault has pinned it."""
    pinned: list[Host] = []

    def change_and_pin() -> None:
        change()
        chaos.pin(host)
        pinned.append(host)

    between_processes(
        chaos, random, host, lambda one: one.node_id not in chaos.pinned and allowed(one), change_and_pin
    )
    pause_s = downtime_s(random)

    def repair() -> None:
        if not pinned or host.node_id not in chaos.pinned:
            return
        chaos.cluster.kill(host)
        end()
        host.unclean = True
        chaos.unpin(host)
        chaos.later(pause_s, chaos.cluster.start, host)

    chaos.later(STOP_S + duration_s(random), repair)


# -- missing, wiped, old ---------------------------------------------------------------------------------------------


def data_missing(chaos: Chaos, random: Random) -> None:
    """One of several data directories is not mounted when the node starts, and is when it starts the next time."""
    host = chaos.any_host(random)
    paths = beside_metadata(host)
    if paths:
        _missing_at_start(chaos, random, host, random.choice(paths), chaos.may_lose_disk)


def metadata_missing(chaos: Chaos, random: Random) -> None:
    """The metadata directory is not mounted when the node starts, beside data that names a cluster."""
    host = chaos.any_host(random)
    if host.metadata_directory not in host.data_directories:
        _missing_at_start(chaos, random, host, host.metadata_directory, chaos.may_kill)


def _missing_at_start(
    chaos: Chaos, random: Random, host: Host, path: str, allowed: Callable[[Host], bool]
) -> None:
    """While a data directory is missing its replicas are; once it is back, they are as they were before it was."""
    missing = random.random() < 0.5

    def loses_replicas() -> None:
        if path in host.data_directories:
            chaos.loses_disk(host)

    def change() -> None:
        chaos.tell(f"{host.name}: {path} is {'missing' if missing else 'empty'} at start")
        host.unclean = True
        loses_replicas()
        host.disk.unmount(path, missing=missing)

    def end() -> None:
        loses_replicas()
        mount(host, path)

    _change_and_repair(chaos, random, host, allowed, change, end)


def wipe(chaos: Chaos, random: Random) -> None:
    """A node comes back with empty directories, where others are in sync."""
    host = chaos.any_host(random)
    paths = _replicas_of(host)
    if not paths:
        return
    paths = random.choice((paths, [random.choice(paths)]))

    def change() -> None:
        chaos.tell(f"{host.name}: {' and '.join(paths)} wiped")
        chaos.loses_disk(host)
        for path in paths:
            host.disk.wipe(path)

    between_processes(chaos, random, host, chaos.may_lose_disk, change)


def restore(chaos: Chaos, random: Random) -> None:
    """A node is started on an old copy of its directories."""
    host = chaos.any_host(random)
    paths = _replicas_of(host)
    if not paths or set(paths) < set(host.data_directories):
        return  # of one of several directories: its copy may have a log that is in another one now
    copies = [host.disk.copy(path) for path in paths]

    def change() -> None:
        chaos.tell(f"{host.name}: {' and '.join(paths)} as they were earlier")
        chaos.loses_disk(host)
        for copy in copies:
            host.disk.restore(copy)

    chaos.later(random.uniform(0.5, 15.0), between_processes, chaos, random, host, chaos.may_lose_disk, change)
