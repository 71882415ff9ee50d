"""Gaps between the segments of a compacted log: which of them recovery accepts, and which are lost records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.batches import encode_batch
from support.compaction import COMPACTED, Cleaned
from support.logs import Clock, append_bytes, memory_disk

from minikafka.protocol.records.record import Record
from minikafka.storage.disks.checkpoint_files import RECOVERY_POINTS
from minikafka.storage.logs.log import Log
from minikafka.storage.logs.log_context import Checkpointed, LogContext


@pytest.fixture
def cleaned() -> Cleaned:
    return Cleaned(memory_disk(), clock=Clock())


def test_a_follower_rolls_where_its_log_ends_not_behind_a_gap(cleaned: Cleaned) -> None:
    """Recovery takes a gap between two segments for a lost one, unless it knows that the log is compacted."""
    for offset in (0, 40, 90):
        data = bytearray(encode_batch([Record(-1, 0, b"k", bytes(1500))], base_offset=offset))
        append_bytes(cleaned.log, data, assign_offsets=False)
    assert cleaned.log.segments.bases == [0, 1, 41]
    cleaned.config = replace(COMPACTED, cleanup_policy=("delete",))
    log = cleaned.restart(clean=False)
    assert (log.end_offset, log.report.damage) == (91, "")


@pytest.mark.parametrize("cleaner_offset", [0, 41, None])
def test_a_segment_that_a_power_failure_emptied_ends_the_log(cleaned: Cleaned, cleaner_offset: int | None) -> None:
    """Or the leader would not send its records again. Where a cleaner has been, there may have been none."""
    for count in (1, 40, 1):
        append_bytes(cleaned.log, bytearray(encode_batch([Record(-1, 0, b"k", bytes(1500 // count))] * count)))
    assert cleaned.log.segments.bases == [0, 1, 41]
    cleaned.log.close(clean=False)
    disk, directory = cleaned.disk, cleaned.log.directory
    emptied = disk.open(f"{directory}/{1:020}.log")
    emptied.truncate(0)
    emptied.close()
    log = Log.open(
        LogContext(disk, cleaned.clock),
        directory,
        cleaned.log.topic_partition,
        COMPACTED,
        Checkpointed(cleaner_offset=cleaner_offset),
    )
    assert log.end_offset == (1 if cleaner_offset == 0 else 42)
    assert ("valid batches follow" in log.report.damage) == (cleaner_offset == 0)
    log.close(clean=False)


def test_a_copy_of_a_cleaned_log_without_checkpoints_is_whole(cleaned: Cleaned) -> None:
    for number in range(6):
        cleaned.put((b"a", b"%d" % number * 700))
    cleaned.put((b"b", b"last"))
    cleaned.roll_and_clean()
    cleaned.put((b"c", b"after"))
    cleaned.log.close(clean=False)
    copied = Log.open(
        LogContext(cleaned.disk, cleaned.clock),
        cleaned.log.directory,
        cleaned.log.topic_partition,
        COMPACTED,
        Checkpointed(),
    )
    assert (copied.end_offset, copied.report.damage) == (cleaned.log.end_offset, "")
    copied.close(clean=False)


@pytest.mark.parametrize("left", [b"", b"0\n0\n", None], ids=["damaged", "without the log", "deleted"])
def test_segments_that_the_cleaner_emptied_are_no_gap_without_recovery_points(
    cleaned: Cleaned, left: bytes | None
) -> None:
    """A node that opens its logs does not know yet that the topic is compacted, and empty segments do not show it."""
    for number in range(9):
        cleaned.put((b"a", b"%d" % number * 900))
        cleaned.clean()
    rows, disk, path = cleaned.rows(), cleaned.disk, f"{cleaned.path}/{RECOVERY_POINTS}"
    assert cleaned.log.segments[0].size_bytes == 0
    assert cleaned.clean_offset > 0
    cleaned.log.close(clean=False)
    disk.remove(path)
    if left is not None:
        file = disk.open(path, create=True)
        file.append(left)
        file.close()
    cleaned.config = replace(COMPACTED, cleanup_policy=("delete",))
    assert cleaned.restart(clean=False).report.damage == ""
    assert cleaned.rows() == rows
