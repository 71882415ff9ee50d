"""`LogManager`: startup, shutdown, checkpoints, deletion, failed directories."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
import structlog.testing
import trio
from support.logs import SMALL, Clock, append, memory_disk, read_all

from minikafka.protocol.errors import KafkaStorageError
from minikafka.protocol.names import TopicPartition
from minikafka.storage.directories.directory_identity import DuplicateLog, WrongDirectory
from minikafka.storage.directories.directory_scan import parse_directory_name
from minikafka.storage.directories.log_manager import LogManager
from minikafka.storage.directories.log_upkeep import LOGS_AT_ONCE, SEGMENTS_AT_ONCE
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.checkpoint_files import read_clean_shutdown, read_offsets, read_properties
from minikafka.storage.disks.disk import MemoryDisk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.log_context import LogContext
from minikafka.storage.steps import at_once

A, B = TopicPartition("a", 0), TopicPartition("b.c-d", 12)
TOPIC_ID = bytes(range(16))


def manage(
    disk: MemoryDisk, *directories: str, clock: Clock | None = None, load: bool = True, **options: object
) -> LogManager:
    found = LogManager(
        LogContext(disk, clock or Clock(), Random(1)),
        list(directories or ("/data",)),
        config_of=lambda topic: SMALL,
        node_id=1,
        cluster_id="c",
        **options,  # type: ignore[arg-type]
    )
    if load:
        found.load()
    return found


def test_a_new_directory_gets_the_identity_of_the_node() -> None:
    disk = memory_disk()
    manage(disk).close({})
    found = read_properties(disk, "/data/meta.properties")
    assert found is not None
    assert list(found) == ["node.id", "directory.id", "version", "cluster.id"]
    assert (found["node.id"], found["cluster.id"], len(found["directory.id"])) == ("1", "c", 22)
    again = manage(disk)
    assert again.directories[0].identity.directory_id == found["directory.id"]
    other = LogManager(LogContext(disk, Clock(), Random(1)), ["/data"], node_id=2, cluster_id="c")
    with pytest.raises(WrongDirectory, match=r"belongs to node\.id 1, not 2"):
        other.load()


def test_a_new_directory_and_its_parents_survive_a_power_failure() -> None:
    disk = memory_disk()
    manager = manage(disk, "/mount/data/b")
    log = manager.create(A, topic_id=TOPIC_ID)
    append(log, b"value")
    log.flush()
    disk.crash()
    assert read_all(manage(disk, "/mount/data/b").create(A)) == [(0, b"value")]


def test_a_clean_restart_restores_logs_and_checkpoints() -> None:
    disk = memory_disk()
    manager = manage(disk)
    for key in (A, B):
        log = manager.create(key, topic_id=TOPIC_ID)
        for number in range(50):
            append(log, b"%d" % number * 30)
    manager.logs[A].advance_start_offset(7)
    manager.close({A: 40, B: 50}, broker_epoch=11)
    assert disk.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":11}'
    manager = manage(disk)
    assert not disk.exists("/data/.kafka_cleanshutdown")
    assert (manager.failures.clean, manager.failures.previous_broker_epoch) == (True, 11)
    assert [manager.high_watermark(key) for key in (A, B)] == [40, 50]
    assert [log.start_offset for log in manager.logs.values()] == [7, 0]
    assert all(log.report.clean and log.topic_id == TOPIC_ID for log in manager.logs.values())
    assert manager.get(A) is manager.create(A)
    assert manager.get(TopicPartition("none", 0)) is None


def test_checkpoints_have_kafkas_format() -> None:
    disk = memory_disk()
    manager = manage(disk)
    log = manager.create(A)
    append(log, b"x", b"y")
    manager.create(B)
    log.advance_start_offset(1)
    log.flush()
    manager.upkeep.write_checkpoints({A: 2, B: 0})
    assert disk.read_bytes("/data/recovery-point-offset-checkpoint") == b"0\n2\na 0 2\nb.c-d 12 0\n"
    assert disk.read_bytes("/data/replication-offset-checkpoint") == b"0\n2\na 0 2\nb.c-d 12 0\n"
    assert disk.read_bytes("/data/log-start-offset-checkpoint") == b"0\n1\na 0 1\n"
    writes = disk.calls["write"]
    manager.upkeep.write_checkpoints({A: 2, B: 0})
    assert disk.calls["write"] == writes, "nothing changed"
    trio.run(manager.upkeep.write_high_watermarks, {A: 1, B: 0})
    assert read_offsets(disk, "/data/replication-offset-checkpoint") == {A: 1, B: 0}


def test_a_log_that_is_not_served_yet_keeps_its_high_watermark() -> None:
    """A node that starts writes the checkpoint before all its partitions are created."""
    disk = memory_disk()
    manager = manage(disk)
    for key in (A, B):
        append(manager.create(key), b"x", b"y")
    manager.close({A: 2, B: 1})
    manager = manage(disk)
    trio.run(manager.upkeep.write_high_watermarks, {A: 1})
    assert read_offsets(disk, "/data/replication-offset-checkpoint") == {A: 1, B: 1}
    manager.close({})
    assert read_offsets(disk, "/data/replication-offset-checkpoint") == {A: 1, B: 1}


def test_high_watermarks_stay_within_the_log() -> None:
    disk = memory_disk()
    manager = manage(disk)
    append(manager.create(A), b"x", b"y")
    manager.close({A: 99})
    assert manage(disk).high_watermark(A) == 2


def test_a_deleted_log_is_renamed_at_once_and_removed_later() -> None:
    disk, clock = memory_disk(), Clock()
    manager = manage(disk, clock=clock)
    log = manager.create(A)
    append(log, b"x")
    part = log.read(0, max_bytes=100)
    manager.delete(A)
    manager.delete(A)
    (name,) = [name for name in disk.list("/data") if name.endswith("-delete")]
    assert name.startswith("a-0.")
    assert len(name) == len("a-0.") + 32 + len("-delete")
    assert manager.get(A) is None
    assert part is not None
    assert len(part.read()) == len(part)
    assert read_all(manager.create(A)) == [], "a new log with the same name is empty"
    clock.ms += SMALL.file_delete_delay_ms
    trio.run(manager.upkeep.remove_deleted)
    assert not [name for name in disk.list("/data") if name.endswith("-delete")]


def test_deleted_logs_are_removed_after_a_crash() -> None:
    disk = memory_disk()
    manager = manage(disk)
    append(manager.create(A), b"x")
    manager.delete(A)
    manager = manage(disk)
    assert manager.get(A) is None
    trio.run(manager.upkeep.remove_deleted)
    assert not [name for name in disk.list("/data") if name.endswith("-delete")]


def test_a_log_that_is_created_again_does_not_inherit_checkpoints() -> None:
    disk = memory_disk()
    manager = manage(disk)
    log = manager.create(A)
    for _ in range(20):
        append(log, b"x")
    log.advance_start_offset(5)
    log.flush()
    manager.upkeep.write_checkpoints({A: 20})
    manager.delete(A)
    append(manager.create(A), b"new")
    assert manager.high_watermark(A) == 0
    manager.logs[A].close(clean=False)
    manager = manage(disk)
    assert read_all(manager.logs[A]) == [(0, b"new")]
    assert not manager.logs[A].report.damage


def test_new_logs_are_created_in_the_directory_with_the_fewest() -> None:
    disk = memory_disk()
    disk.make_directory("/other")
    manager = manage(disk, "/data", "/other")
    for index in range(6):
        manager.create(A._replace(partition=index))
    assert [len(directory.logs) for directory in manager.directories] == [3, 3]
    manager.close({}, broker_epoch=4)
    manager = manage(disk, "/data", "/other")
    assert len(manager.logs) == 6
    assert manager.failures.previous_broker_epoch == 4


def test_a_partition_in_two_directories_is_refused() -> None:
    disk = memory_disk()
    manager = manage(disk, "/data", "/other")
    append(manager.create(A), b"kept")
    manager.close({})
    manager = manage(disk, "/other")
    append(manager.create(A), b"made while the other directory was missing")
    manager.close({})
    for corrupt in (False, True):
        if corrupt:
            disk.open("/data/a-0/00000000000000000000.log").pwrite(20, b"?")
        with pytest.raises(DuplicateLog, match="for a-0 are found in both /other/a-0 and /data/a-0"):
            manage(disk, "/data", "/other")


def test_of_two_logs_without_a_topic_id_that_were_never_flushed_none_is_current() -> None:
    """Each was made while the other directory was missing; then the power failed, and the ids were lost with it."""
    pairs = 0
    for seed in range(30):
        disk = memory_disk(seed)
        manage(disk, "/data", "/other")
        for number, directory in enumerate(("/data", "/other"), 1):
            log = manage(disk, directory).create(A, topic_id=bytes([number]) * 16)
            append(log, b"not flushed")
        disk.crash()
        logs = [f"{path}/a-0" for path in ("/data", "/other") if disk.exists(f"{path}/a-0")]
        pairs += [disk.exists(f"{log}/partition.metadata") for log in logs] == [False, False]
        manager = manage(disk, "/data", "/other")
        manager.create(A, topic_id=b"\x02" * 16)
        assert not manager.unsettled
    assert pairs, "no seed lost both ids and kept both directories"


def test_a_deleted_log_does_not_come_back_beside_its_successor() -> None:
    for seed in range(20):
        disk = memory_disk(seed)
        manager = manage(disk, "/data", "/other")
        for key in (A, B):
            manager.create(key)
        manager.delete(A)
        for index in (1, 2):
            manager.create(A._replace(partition=index))
        log = manager.create(A)
        assert log.directory == "/other/a-0", "the directory with the fewest logs"
        log.flush()
        disk.crash()
        assert A in manage(disk, "/data", "/other").logs


def test_a_new_data_directory_survives_a_power_failure() -> None:
    disk = memory_disk()
    manager = manage(disk, "/data/new/one")
    log = manager.create(A)
    append(log, b"kept")
    log.flush()
    disk.crash()
    assert list(manage(disk, "/data/new/one").logs) == [A]


@pytest.mark.parametrize(
    "action",
    [
        lambda manager: manager.create(A),
        lambda manager: manager.delete(A),
        lambda manager: manager.upkeep.write_checkpoints({A: 1}),
        lambda manager: trio.run(manager.upkeep.write_high_watermarks, {A: 1}),
    ],
)
def test_a_log_that_cannot_be_looked_at_does_not_count_as_missing(action: Any) -> None:
    disk = memory_disk()
    manager = manage(disk)
    append(manager.create(A), b"x")
    manager.close({A: 1})
    manager = manage(disk)
    manager.logs.clear()
    manager.directories[0].logs.clear()
    disk.fail("stat", path="/data/a-0", times=99)
    try:
        action(manager)
    except KafkaStorageError:
        pass
    assert manager.directories[0].failure is not None


def test_a_failed_directory_takes_only_its_logs_offline() -> None:
    disk = memory_disk()
    disk.make_directory("/other")
    reported: list[str] = []
    manager = manage(disk, "/data", "/other", on_offline=lambda path, error: reported.append(path))
    logs = [manager.create(A._replace(partition=index)) for index in range(4)]
    disk.fail("write", path="/data/a-0/")
    with pytest.raises(KafkaStorageError):
        append(logs[0], b"x")
    assert reported == ["/data"]
    assert [log.failure is None for log in logs] == [False, True, False, True]
    assert len(manager.logs) == 2
    append(logs[1], b"x")
    assert manager.create(A._replace(partition=9)).directory.startswith("/other")
    manager.close({})
    assert read_clean_shutdown(disk, "/data/.kafka_cleanshutdown") is None
    assert read_clean_shutdown(disk, "/other/.kafka_cleanshutdown") == -1
    manager = manage(disk, "/data", "/other")
    assert not manager.failures.clean
    assert [directory.shutdown.was_clean for directory in manager.directories] == [False, True]


@pytest.mark.parametrize(
    ("kind", "path", "action"),
    [
        ("rename", "/data/a-0", lambda manager: manager.delete(A)),
        ("sync", "/data/a-0/", lambda manager: trio.run(manager.upkeep.flush_due)),
        ("sync", "/data/a-0/", lambda manager: manager.close({})),
        ("rename", "/data/recovery", lambda manager: manager.upkeep.write_checkpoints({})),
        ("rename", "/data/replication", lambda manager: trio.run(manager.upkeep.write_high_watermarks, {A: 1})),
        ("rename", "/data/a-0/", lambda manager: at_once(manager.upkeep.run_retention(lambda key: 60))),
        ("open", "/data/c-0", lambda manager: manager.create(TopicPartition("c", 0))),
    ],
)
def test_any_io_error_takes_the_directory_offline(kind: str, path: str, action: Any) -> None:
    disk = memory_disk()
    reported: list[str] = []
    manager = manage(disk, on_offline=lambda path, error: reported.append(path))
    log = manager.create(A)
    for _ in range(60):
        append(log, b"x" * 200)
    log.flush()
    log.advance_start_offset(40)
    for _ in range(30):
        append(log, b"x" * 200)
    disk.fail(kind, path=path, times=99)
    try:
        action(manager)
    except KafkaStorageError:
        pass
    assert reported == ["/data"]
    assert manager.logs == {}
    with pytest.raises(KafkaStorageError):
        append(log, b"x")
    disk.heal()
    manager.close({})
    assert not disk.exists("/data/.kafka_cleanshutdown")
    assert len(read_all(manage(disk).logs[A])) >= 50 if kind != "rename" or "a-0" not in path else True


def test_without_an_online_directory_no_log_is_created() -> None:
    disk = memory_disk()
    manager = manage(disk, load=False)
    disk.fail("mkdir", path="/data")
    with pytest.raises(KafkaStorageError, match=r"no data directory is usable: /data: .*injected fault"):
        manager.load()
    with pytest.raises(KafkaStorageError, match="all data directories"):
        manager.create(A)


def test_the_recovery_point_checkpoint_is_lowered_before_flushed_data_is_truncated() -> None:
    disk = memory_disk()
    manager = manage(disk)
    log = manager.create(A)
    for _ in range(20):
        append(log, b"x")
    log.flush()
    manager.upkeep.write_checkpoints()
    log.truncate_to(5)
    assert read_offsets(disk, f"/data/{checkpoint_files.RECOVERY_POINTS}") == {A: 5}


def test_retention_covers_all_logs_and_flushes_those_that_are_due() -> None:
    disk, clock = memory_disk(), Clock()
    manager = LogManager(
        LogContext(disk, clock, Random(1)),
        ["/data"],
        config_of=lambda topic: LogConfig(segment_bytes=2048, retention_bytes=4096, retention_ms=-1),
    )
    manager.load()
    for key in (A, B):
        log = manager.create(key)
        for _ in range(60):
            append(log, b"x" * 200)
    assert trio.run(manager.upkeep.flush_due) == 2
    assert trio.run(manager.upkeep.flush_due) == 0
    assert at_once(manager.upkeep.run_retention(lambda key: 60 if key == A else None)) > 3
    assert manager.logs[A].size_bytes < 4096 + 2048
    assert manager.logs[B].start_offset == 0
    trio.run(manager.upkeep.expire_producers)


def test_retention_deletes_some_segments_at_a_time_and_passes_over_a_log_that_is_gone() -> None:
    manager = LogManager(
        LogContext(memory_disk(), lambda: 0, Random(1)),
        ["/data"],
        config_of=lambda topic: LogConfig(segment_bytes=300, retention_bytes=0, retention_ms=-1),
    )
    manager.load()
    for key in (A, B):
        log = manager.create(key)
        for _ in range(100):
            append(log, b"x" * 200)
    steps = manager.upkeep.run_retention(lambda key: 100)
    next(steps)
    assert manager.logs[A].start_offset == SEGMENTS_AT_ONCE
    assert manager.logs[B].start_offset == 0
    manager.delete(B)
    at_once(steps)
    assert manager.logs[A].start_offset >= 99


@pytest.mark.parametrize("segments", [1, 3, SEGMENTS_AT_ONCE + 1])
def test_retention_pauses_after_each_log_of_which_it_deletes_something(segments: int) -> None:
    """Not after those that it only looks at."""
    config = LogConfig(segment_bytes=300, retention_bytes=0, retention_ms=-1)
    manager = LogManager(LogContext(memory_disk(), lambda: 0, Random(1)), ["/data"], config_of=lambda topic: config)
    manager.load()
    logs = [manager.create(TopicPartition("a", index)) for index in range(LOGS_AT_ONCE)]
    old = logs[::16]
    for log in old:
        for _ in range(segments):
            append(log, b"x" * 200)
    starts, pauses = [log.start_offset for log in logs], 0
    for _ in manager.upkeep.run_retention(lambda key: segments):
        found = [log.start_offset for log in logs]
        deleted = [after - before for before, after in zip(starts, found, strict=True) if after > before]
        assert len(deleted) <= 1
        assert sum(deleted) <= SEGMENTS_AT_ONCE
        starts, pauses = found, pauses + 1
    assert [log.start_offset for log in old] == [segments] * len(old)
    assert pauses == len(old) * (1 if segments < SEGMENTS_AT_ONCE else 2) + 1


def test_load_skips_the_metadata_log() -> None:
    disk = memory_disk()
    manager = manage(disk)
    key = TopicPartition("__cluster_metadata", 0)
    append(manager.create(key), b"x")
    manager.close({})
    manager = manage(disk)
    assert manager.get(key) is None
    assert read_all(manager.create(key)) == [(0, b"x")]


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("a-0", A),
        ("b.c-d-12", B),
        ("a", None),
        ("-0", None),
        ("a-x", None),
        ("a-0.0123456789abcdef-delete", None),
        ("a--1", TopicPartition("a-", 1)),
    ],
)
def test_directory_names(name: str, key: TopicPartition | None) -> None:
    assert parse_directory_name(name) == key


def test_a_long_topic_name_still_fits_when_deleted() -> None:
    disk = memory_disk()
    manager = manage(disk)
    manager.create(TopicPartition("t" * 249, 3))
    manager.delete(TopicPartition("t" * 249, 3))
    (name,) = [name for name in disk.list("/data") if name.endswith("-delete")]
    assert len(name) == 255


def test_a_start_says_in_one_line_what_recovery_did() -> None:
    disk = memory_disk()
    manager = manage(disk, "/one", "/two")
    for number in range(20):
        append(manager.create(TopicPartition("t", number), topic_id=TOPIC_ID), b"value")
    torn = next(log.directory for log in manager.logs.values() if log.directory.startswith("/one"))
    manager.close({})
    disk.remove("/one/.kafka_cleanshutdown")
    disk.open(f"{torn}/00000000000000000000.log").append(b"torn")
    with structlog.testing.capture_logs() as lines:
        manage(disk, "/one", "/two")
    (line,) = [line for line in lines if line["log_level"] != "debug"]
    assert line["event"] == "logs loaded"
    assert line["directories"] == {"/one": 10, "/two": 10}
    assert (line["clean_shutdown"], line["recovered"], line["truncated"]) == (False, 10, 1)
    assert (line["truncated_bytes"], line["damaged"]) == (4, 0)
