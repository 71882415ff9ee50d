"""The rows that Spark has to see, by a plain reader of the segment files: no index, no protocol, no fetch logic."""

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
    """A record in a log; `seen` says whether a reader of committed records gets it."""

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
        """The first offset below `end` whose record is not older."""
        return next((one.offset for one in self.entries if one.offset < end and one.timestamp >= timestamp), None)

    def rows(self, topic: str, partition: int, low: int, high: int, *, committed: bool) -> list[Row]:
        """What Spark has to show of the offsets from `low` up to `high`, in the order of the columns."""
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
    """Everything in a partition's folder from its log start offset on."""
    whole = [batch for path in sorted(directory.glob("*.log")) for batch in batches(path.read_bytes())]
    outcome, open_now = _outcomes(whole)
    entries = [entry for index, batch in enumerate(whole) for entry in _entries(batch, seen=outcome[index])]
    end = whole[-1].next_offset if whole else start
    return PlainLog([one for one in entries if one.offset >= start], start, end, min([end, *open_now]))


def _outcomes(whole: list[Batch]) -> tuple[list[bool], list[int]]:
    """For each batch, whether it is committed; and the first offsets of transactions that are still open."""
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
    """What a data frame holds, comparable with `PlainLog.rows`; without its headers column they read as None."""
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
    """Rows as a query without includeHeaders shows them."""
    return [(*one[:-1], None) for one in rows]


def ordered(rows: Iterable[Row]) -> list[Row]:
    """By topic, partition and offset: Spark gives partitions in any order, each in its own."""
    return sorted(rows, key=lambda one: (one[2], one[3], one[4]))


def adopt(source: Path, data_dir: Path, partitions: Iterable[str], *, only: str = "*") -> None:
    """Put Kafka's files in place of those of a stopped node; its topics keep the ids that they have.

    `partitions` are folders, such as "flights-0"; `only` says which of the files, for a Kafka that still writes them.
    """
    for name in partitions:
        target = data_dir / name
        for old in target.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        for new in (source / name).glob(only):
            if new.name != "partition.metadata":
                shutil.copyfile(new, target / new.name)
