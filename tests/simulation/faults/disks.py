"""Faults of disks while nodes run: slow, full, failing, and rotten ones; power failures and kills at an operation.

A fault that makes a directory fail ends with the process at the latest: what fails at start is in `disks_at_start.py`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from random import Random

from simulation.faults.chaos import Chaos
from simulation.world.cluster import Host
from simulation.world.disk_faults import CHANGES, ProcessEnded

OPERATIONS = ("", "", "write", "sync", "rename", "remove")
SMALL_LIMITS = (12, 48)
FAILING_NAMES = ("failing directory", "failing writes", "failing syncs", "failing reads")
REPLICA_FILES = (
    "segment middle", "segment tail", "index", "time index", "transaction index", "producer snapshot", "checkpoint",
)  # fmt: skip


def duration_s(random: Random) -> float:
    """Of a fault that ends by itself."""
    return random.choice((random.uniform(0.1, 3.0), random.uniform(3.0, 20.0)))


def downtime_s(random: Random) -> float:
    """Of a node."""
    return random.choice((random.uniform(0.05, 1.0), random.uniform(1.0, 10.0)))


# -- slow and full ---------------------------------------------------------------------------------------------------


def slow(chaos: Chaos, random: Random) -> None:
    """Flushes, and what else is done in threads, take long in one directory."""
    host = chaos.any_host(random)
    path = random.choice(host.directories)
    mean_s = random.choice((0.01, 0.1, 1.0))
    host.disk.slow(path, lambda random: random.expovariate(1 / mean_s))
    chaos.tell(f"{host.name}: {path} is slow, {mean_s} s")
    _count_effects(chaos, host, "slow")
    chaos.later(duration_s(random), host.disk.fast, path)


def _count_effects(chaos: Chaos, host: Host, *names: str) -> Callable[[], None]:
    """Count this fault when a process has met it; returns a function that looks at once."""
    effects = host.disk.effects
    before = sum(effects[name] for name in names)
    counted = False

    def look() -> None:
        nonlocal counted
        if not counted and sum(effects[name] for name in names) > before:
            counted = True
            chaos.count(f"disk: {names[0]}")

    injected = chaos.remembering(look)
    for delay_s in (0.5, 5.0):
        chaos.later(delay_s, injected)
    return injected


def fill(chaos: Chaos, random: Random) -> None:
    """The directory of the metadata log has little space left, then none; later it has."""
    host = chaos.any_host(random)
    _fill(chaos, random, host, host.metadata_directory)


def fill_one_of_several(chaos: Chaos, random: Random) -> None:
    """Like `fill`, for a data directory beside the metadata log."""
    host = chaos.any_host(random)
    if paths := beside_metadata(host):
        _fill(chaos, random, host, random.choice(paths))


def beside_metadata(host: Host) -> list[str]:
    """The data directories that do not have the metadata log."""
    if "broker" not in host.settings["process.roles"].split(","):
        return []
    return [path for path in host.data_directories if path != host.metadata_directory]


def _fill(chaos: Chaos, random: Random, host: Host, path: str) -> None:
    left = random.randint(0, 20_000)

    def begin() -> None:
        chaos.pin(host)
        host.disk.full(path, left)

    def end() -> None:
        _mended(chaos, host)
        host.disk.free(path)

    if chaos.may_kill(host):
        _while_it_runs(chaos, random, host, f"{path} is full but for {left} bytes", ["full"], begin, end)


# -- failing ---------------------------------------------------------------------------------------------------------


def fail(chaos: Chaos, random: Random) -> None:
    """Operations in the directory of the metadata log, or in all, fail with EIO; unsynced data is lost."""
    host = chaos.any_host(random)
    _fail(chaos, random, host, random.choice(([host.metadata_directory], host.directories)))


def fail_one_of_several(chaos: Chaos, random: Random) -> None:
    """Like `fail`, for a data directory beside the metadata log."""
    host = chaos.any_host(random)
    if paths := beside_metadata(host):
        _fail(chaos, random, host, [random.choice(paths)])


def _fail(chaos: Chaos, random: Random, host: Host, paths: list[str]) -> None:
    if not _may_lose_what_was_read(chaos, host):
        return
    what = random.choice(("all", "all", "writes", "syncs", "reads"))
    probability, times = random.choice(((1.0, -1), (1.0, -1), (1.0, random.randint(1, 3)), (0.2, -1)))

    def begin() -> None:
        chaos.loses_records(host)
        chaos.pin(host)
        for path in paths:
            host.disk.fail_directory(path, what, probability=probability, times=times)

    def end() -> None:
        _mended(chaos, host)
        for path in paths:
            host.disk.repair_directory(path)
            host.disk.mount_again(path)

    text = f"{' and '.join(paths)} fail: {what}, {probability}, {times}"
    _while_it_runs(chaos, random, host, text, FAILING_NAMES, begin, end)


def _may_lose_what_was_read(chaos: Chaos, host: Host) -> bool:
    """Without `flush.messages` a record of a partition with one replica is visible before it is synced: consumers would
    notice that it is lost."""
    return (chaos.durable or chaos.tolerates_loss) and chaos.may_lose_records(host)


def _mended(chaos: Chaos, host: Host) -> None:
    if host.node_id in chaos.pinned:
        chaos.unpin(host)
        host.unclean = True


def _while_it_runs(
    chaos: Chaos,
    random: Random,
    host: Host,
    text: str,
    names: Sequence[str],
    begin: Callable[[], None],
    end: Callable[[], None],
) -> None:
    """A fault that ends after a while, or with the process, which is started again: it has noticed it, or will."""
    machine = host.machine
    if machine is None or not host.is_running:
        return
    chaos.tell(f"{host.name}: {text}")
    begin()
    look = _count_effects(chaos, host, *names)
    machine.on_end += [look, end]
    pause_s = downtime_s(random)

    def after_a_while() -> None:
        if host.machine is not None and host.machine is not machine:
            return  # started again meanwhile
        chaos.cluster.kill(host)
        look()
        end()
        chaos.later(pause_s, chaos.cluster.start, host)

    chaos.later(duration_s(random), after_a_while)


def leave_failed(chaos: Chaos, random: Random) -> None:
    """A data directory fails for good: the partitions in it are to be led by others. Others of the host are left."""
    host = chaos.any_host(random)
    paths = beside_metadata(host)
    if len(host.directories) < 2 or host.node_id in chaos.left_failed:
        return
    if not paths or not host.is_running or not chaos.may_lose_disk(host):
        return
    path = random.choice(paths)
    chaos.loses_disk(host)
    chaos.pin(host, for_good=True)
    chaos.left_failed[host.node_id] = path
    chaos.tell(f"{host.name}: {path} fails for good")
    host.disk.fail_directory(path)
    _count_effects(chaos, host, *FAILING_NAMES)


# -- rot -------------------------------------------------------------------------------------------------------------


def rot(chaos: Chaos, random: Random) -> None:
    """Bytes of a file of replicas change. The disk is replaced when the faults have ended."""
    host = chaos.any_host(random)
    if "broker" not in host.settings["process.roles"] or not chaos.may_lose_disk(host):
        return
    path = random.choice(host.data_directories)
    if not host.disk.is_directory(path):  # It is missing since the last start.
        return
    found = host.disk.rot(path, random, kinds=REPLICA_FILES, concerns=lambda path: "__cluster_metadata" not in path)
    if found is None:
        return
    chaos.tell(f"{host.name}: {found}")
    chaos.count(f"rot: {found.kind}")
    chaos.loses_disk(host)
    chaos.pin(host, for_good=True)
    chaos.at_heal[f"replace the disk of {host.name}"] = lambda: _replace(chaos, host)


def _replace(chaos: Chaos, host: Host) -> None:
    """Remove all replicas, as if on a new disk; a voter keeps its metadata log and its vote. A directory that failed
    for good stays as it is."""
    chaos.tell(f"{host.name}: its disk is replaced")
    chaos.cluster.kill(host)
    for directory in host.data_directories:
        if directory == chaos.left_failed.get(host.node_id):
            continue
        host.disk.mount_again(directory)
        for name in host.disk.list(directory):
            path = f"{directory}/{name}"
            if name.startswith("__cluster_metadata") or name == "meta.properties":
                continue
            (host.disk.remove_tree if host.disk.is_directory(path) else host.disk.remove)(path)
        host.disk.sync_directory(directory)


# -- at an operation -------------------------------------------------------------------------------------------------


def lose_power_at_operation(chaos: Chaos, random: Random) -> None:
    """Power fails exactly at some write, sync, rename, …"""
    host = chaos.any_host(random)
    if host.is_running:
        number = random.choice((random.randint(1, 20), random.randint(1, 1000)))
        end_at_operation(chaos, random, host, number, random.choice(OPERATIONS))


def stop_during_recovery(chaos: Chaos, random: Random) -> None:
    """Power fails or the process is killed, and again when the next one has made a few changes to its disk."""
    host = chaos.any_host(random)
    if not _lose_power_or_kill(chaos, random, host):
        return

    def again(left: int) -> None:
        end_at_operation(chaos, random, host, random.randint(1, 40), then=lambda: again(left - 1) if left else None)
        chaos.cluster.start(host)

    chaos.later(0.1, again, random.randint(0, 2))


def end_at_operation(
    chaos: Chaos,
    random: Random,
    host: Host,
    number: int,
    kind: str = "",
    *,
    then: Callable[[], None] = lambda: None,
) -> None:
    """Power fails, or the process is killed, before the `number`-th operation of this kind, or of those that change
    something; the node is started again, and `then` called."""
    left = number

    def end(operation: str, path: str) -> None:
        if not _lose_power_or_kill(chaos, random, host):
            return
        host.disk.on_operation(None)
        chaos.tell(f"{host.name}: ends at {operation} {path}")
        chaos.count(f"ended at {operation}")
        pause_s = downtime_s(random)
        chaos.later(pause_s, then)
        chaos.later(pause_s, chaos.cluster.start, host)

    def hook(operation: str, path: str) -> None:
        nonlocal left
        if chaos.healed or operation not in CHANGES or kind not in {"", operation}:
            return
        left -= 1
        if left > 0:
            return
        ends(operation, path)
        if host.machine is None:
            raise ProcessEnded(errno.EIO, "the process was killed", path)

    ends = chaos.remembering(end)
    host.disk.on_operation(hook)


def _lose_power_or_kill(chaos: Chaos, random: Random, host: Host) -> bool:
    """Returns whether one of them was allowed."""
    if random.random() < 0.7 and _may_lose_what_was_read(chaos, host):
        chaos.loses_records(host)
        chaos.cluster.lose_power(host)
    elif chaos.may_kill(host):
        chaos.cluster.kill(host)
    else:
        return False
    return True


# -- descriptors -----------------------------------------------------------------------------------------------------


def few_descriptors(chaos: Chaos, random: Random) -> None:
    """A node is started with a low limit of descriptors."""
    host = chaos.any_host(random)
    if not chaos.may_kill(host):
        return
    chaos.cluster.kill(host)
    chaos.pin(host)
    host.descriptors_max = random.randint(*SMALL_LIMITS)
    chaos.tell(f"{host.name}: {host.descriptors_max} descriptors")
    chaos.later(downtime_s(random), chaos.cluster.start, host)
    pause_s = downtime_s(random)
    look = _count_effects(chaos, host, "no descriptors")

    def enough() -> None:
        look()
        host.descriptors_max = None
        chaos.cluster.kill(host)
        _mended(chaos, host)
        chaos.later(pause_s, chaos.cluster.start, host)

    chaos.later(10 + duration_s(random), enough)
