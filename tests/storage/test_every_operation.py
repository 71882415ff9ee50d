"""Each operation of a node's disks fails or is the last one: nothing acknowledged is lost, and the next start succeeds.

A life of two data directories (starts, appends, flushes, truncations, deletions, checkpoints, a move, a stop) is
repeated; each time the next operation fails, for one call, or until there is room again. Then the same with the end of
the process, or a power failure, at each operation of a start.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest
import trio
from support.faulty_disk import FaultyDisk
from support.logs import SMALL, Clock, append, check_indexes, read_all

from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.disks.memory_disk import MemoryDisk, PowerLoss
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import LogContext

KEYS = [TopicPartition("t", number) for number in range(4)]
GONE = TopicPartition("gone", 0)
DIRECTORIES = ["/a", "/b"]
TOPIC_ID = bytes(range(16))
PASSING = [errno.ENOSPC, errno.EMFILE]

pytestmark = pytest.mark.usefixtures("quiet")


class Life:
    """What a node has been told and has acknowledged, on two data directories.

    Attributes:
        written: by partition, the values at the offsets from 0 on that were acknowledged.
        flushed: how many of them a power failure must leave.
        made: the partitions that were made at least in part.
        unsure: the values whose append or truncation has failed: they may be there or not.
        offline: the data directories that have failed.
    """

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk, self.clock, self.random = disk, Clock(), Random(1)
        self.written: dict[TopicPartition, list[bytes]] = {key: [] for key in KEYS}
        self.flushed = dict.fromkeys(KEYS, 0)
        self.offline: list[str] = []
        self.number = 0
        self.made: set[TopicPartition] = set()
        self.unsure: dict[TopicPartition, bytes] = {}
        self.manager = self._new_manager()

    def _new_manager(self) -> LogManager:
        return LogManager(
            LogContext(self.disk, self.clock, self.random),
            DIRECTORIES,
            node_id=1,
            cluster_id="c",
            config_of=lambda topic: SMALL,
            on_offline=lambda path, error: self.offline.append(path),
        )

    def start(self) -> None:
        self.offline.clear()
        self.manager = self._new_manager()
        self.manager.load()

    def all(self) -> None:
        """Everything, each step whether or not others have failed; as a node whose only directory fails, it stops."""
        with suppress(KafkaError):
            self.start()
            self.serve()
            self.stop()
            self.start()
            self.serve()

    def serve(self) -> None:
        for key in (*KEYS, GONE):
            self._try(self.create, key)
        for key in KEYS:
            self._try(self.write, key, 3)
        self._try(self.flush, KEYS[0])
        self._try(self.flush, KEYS[1])
        self._try(self.truncate, KEYS[1])
        self._try(self.write, KEYS[0], 30)
        self._try(self.manager.upkeep.write_checkpoints, dict.fromkeys(KEYS, 0))
        self._try(self.delete, GONE)
        self._try(self.move, KEYS[2])
        self.clock.ms += 100_000
        self._try(trio.run, self.manager.upkeep.flush_due)
        self._try(trio.run, self.manager.upkeep.remove_deleted)

    def _try(self, step: Callable[..., object], *args: object) -> None:
        with suppress(KafkaError):
            step(*args)

    def create(self, key: TopicPartition) -> Log:
        is_new = key not in self.made
        self.made.add(key)
        log = self.manager.create(key, topic_id=TOPIC_ID, is_new=is_new)
        last = self.unsure.pop(key, None)
        if last is not None and log.end_offset > len(self.written[key]):
            self.written[key].append(last)
        return log

    def delete(self, key: TopicPartition) -> None:
        self.manager.delete(key)
        self.made.discard(key)

    def write(self, key: TopicPartition, count: int) -> None:
        log = self.create(key)
        for _ in range(count):
            self.unsure[key] = b"%d " % self.number * 20
            self.number += 1
            append(log, self.unsure[key])
            self.written[key].append(self.unsure.pop(key))

    def flush(self, key: TopicPartition) -> None:
        self.create(key).flush()
        self.flushed[key] = len(self.written[key])

    def truncate(self, key: TopicPartition) -> None:
        log = self.create(key)
        if log.end_offset > 0:
            self.unsure[key] = self.written[key].pop()
            self.flushed[key] = min(self.flushed[key], len(self.written[key]))
            log.truncate_to(log.end_offset - 1)
            del self.unsure[key]

    def move(self, key: TopicPartition) -> None:
        self.create(key)
        target = next(one for one in self.manager.directories if key not in one.logs)
        if target.failure is None and key not in self.manager.futures.logs:
            self.manager.futures.create(target, key, TOPIC_ID)

    def stop(self) -> None:
        self.manager.close({}, broker_epoch=7)
        if not self.offline:
            self.flushed = {key: len(values) for key, values in self.written.items()}

    def check(self, *, power_failed: bool) -> None:
        """After the next start: what was acknowledged is there, or with a power failure what was flushed."""
        self.start()
        assert not self.offline
        assert not self.manager.failures.corrupt
        for key, values in self.written.items():
            log = self.manager.create(key, topic_id=TOPIC_ID, is_new=False)
            found = [value for _, value in read_all(log)]
            assert power_failed or not log.report.damage
            assert found[: len(values)] == values[: len(found)], "no record that was never acknowledged as such"
            assert len(found) >= (self.flushed[key] if power_failed else len(values))
            check_indexes(log)
            append(log, b"goes on")


def lives(code: int, times: int, *, under: str = "", power_fails: bool = False) -> int:
    """Has each operation fail in a life of its own; returns the number of lives."""
    first = 0
    while True:
        # A process that starts after a failed sync trusts the page cache: see the caveats of the package.
        disk = FaultyDisk(f"{code} {first}", syncs_fail=not power_fails)
        life = Life(disk)
        disk.fail_from(first, times, code, under)
        life.all()
        if not disk.failed:
            return first
        disk.heal()
        failures = [str(one.failure) for one in life.manager.directories if one.failure is not None]
        assert code not in PASSING or all("half-way" in one for one in failures), "otherwise the node goes on"
        try:
            if power_fails:
                disk.crash()
            life.check(power_failed=power_fails)
        except BaseException:
            print(f"operation {first} of the life: {disk.failed[0]}")
            raise
        first += 1


@pytest.mark.sweep
@pytest.mark.parametrize("times", [1, 40])
@pytest.mark.parametrize("code", PASSING)
def test_room_or_descriptors_run_out_at_any_operation(code: int, times: int) -> None:
    assert lives(code, times) > 50


@pytest.mark.sweep
@pytest.mark.parametrize("power_fails", [False, True])
def test_an_operation_of_any_directory_fails(power_fails: bool) -> None:
    assert lives(errno.EIO, 1, power_fails=power_fails) > 200


@pytest.mark.sweep
def test_one_of_two_directories_fails_for_good_at_any_operation() -> None:
    assert lives(errno.EIO, 1 << 30, under="/b") > 100


@pytest.mark.sweep
@pytest.mark.parametrize("power_fails", [False, True])
def test_a_process_ends_at_any_operation_of_a_start(power_fails: bool) -> None:
    for repeated in (False, True):
        operation, started = 0, False
        while not started:
            disk = MemoryDisk(Random(f"{operation} {repeated}"))
            life = Life(disk)
            life.all()
            for _ in range(1 + repeated):
                disk.lose_power_after(operation)
                with suppress(PowerLoss):
                    life.start()
                    started = True
                if power_fails:
                    disk.crash()
            disk.lose_power_after(-1)
            life.check(power_failed=power_fails)
            operation += 1
        assert operation > 10
