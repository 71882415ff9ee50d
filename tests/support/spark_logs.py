"""The rows that Spark must return, by a simple reader of segment files: no index, no protocol, no fetch logic."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from minikafka.protocol.records.batch import Batch, batches
from minikafka.protocol.records.control import ControlType, parse_end_transaction

EPOCH = datetime.datetime(1970, 1, 1)
Row = tuple[Any, ...]
Partition = tuple[str, int]


class Entry(NamedTuple):
    """A record in a log; `seen`: visible to read_committed consumers."""

    offset: int
    timestamp: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    is_control: bool
    seen: bool


class PlainLog(NamedTuple):
    """A partition's log. `stable_end` is the first offset of the oldest open transaction, or the end."""

    entries: list[Entry]
    start: int
    end: int
    stable_end: int

    def at_time(self, timestamp: int, end: int) -> int | None:
        """Returns the offset of the first record below `end` at or after a timestamp."""
        return next((one.offset for one in self.entries if one.offset < end and one.timestamp >= timestamp), None)

    def rows(self, topic: str, partition: int, low: int, high: int, *, committed: bool) -> list[Row]:
        """Returns the rows that Spark must return for the offsets from `low` to `high`, in column order."""
        return [
            row(topic, partition, one)
            for one in self.entries
            if low <= one.offset < high and not one.is_control and (one.seen or not committed)
        ]


def row(topic: str, partition: int, one: Entry) -> Row:
    """One record with all eight columns."""
    time = EPOCH + datetime.timedelta(milliseconds=one.timestamp)
    headers = one.headers or None
    return (one.key, one.value, topic, partition, one.offset, time, one.timestamp_type, headers)


def read_log(directory: Path, start: int = 0) -> PlainLog:
    """Reads all records in a partition's folder from its log start offset on."""
    whole = [batch for path in sorted(directory.glob("*.log")) for batch in batches(path.read_bytes())]
    outcome, open_now = _outcomes(whole)
    entries = [entry for index, batch in enumerate(whole) for entry in _entries(batch, seen=outcome[index])]
    end = whole[-1].next_offset if whole else start
    return PlainLog([one for one in entries if one.offset >= start], start, end, min([end, *open_now]))


def _outcomes(whole: list[Batch]) -> tuple[list[bool], list[int]]:
    """Returns for each batch whether it is committed, and the first offsets of open transactions."""
    seen = [not batch.is_transactional for batch in whole]
    pending: dict[int, list[int]] = {}
    for index, batch in enumerate(whole):
        marker = parse_end_transaction(batch) if batch.is_control else None
        if marker is not None:
            for place in pending.pop(batch.producer_id, ()):
                seen[place] = marker.type is ControlType.COMMIT
        elif batch.is_transactional:
            pending.setdefault(batch.producer_id, []).append(index)
    return seen, [whole[places[0]].base_offset for places in pending.values()]


def _entries(batch: Batch, *, seen: bool) -> Iterable[Entry]:
    for one in batch.records():
        yield Entry(
            one.offset, one.timestamp, batch.timestamp_type, one.key, one.value, tuple(one.headers),
            batch.is_control, seen,
        )  # fmt: skip


def rows_of(frame: Any) -> list[Row]:
    """Returns the rows of a data frame, comparable with `PlainLog.rows`; a missing headers column reads as None."""
    return [_plain(one) for one in frame.collect()]


def _plain(one: Any) -> Row:
    found = one.asDict()
    headers = found.get("headers")
    pairs = None if headers is None else tuple((pair["key"], _bytes(pair["value"])) for pair in headers)
    return (
        _bytes(found["key"]), _bytes(found["value"]), found["topic"], found["partition"], found["offset"],
        found["timestamp"], found["timestampType"], pairs,
    )  # fmt: skip


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def without_headers(rows: Iterable[Row]) -> list[Row]:
    """Returns the rows as in a query without includeHeaders."""
    return [(*one[:-1], None) for one in rows]


def ordered(rows: Iterable[Row]) -> list[Row]:
    """Sorts rows by topic, partition and offset: Spark returns partitions in any order."""
    return sorted(rows, key=lambda one: (one[2], one[3], one[4]))


def adopt(source: Path, data_dir: Path, partitions: Iterable[str], *, only: str = "*") -> None:
    """Replaces the files of a stopped node by Kafka's; its topics keep their ids.

    `partitions` are folders, such as "flights-0"; `only` selects files, for a Kafka broker that is still running.
    """
    for name in partitions:
        target = data_dir / name
        for old in target.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        for new in (source / name).glob(only):
            if new.name != "partition.metadata":
                shutil.copyfile(new, target / new.name)
