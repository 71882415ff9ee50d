"""A simulated `RaftLog` and its disk, which has synced changes only.

Batches are synthetic: a header and an opaque payload. One batch may hold several records. Those with control records
are real batches, so that the voters can be read from them; a snapshot has the voters after its state.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import deque
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.membership_records import (
    MembershipRecord,
    control_batch,
    control_value,
    membership_in,
)
from minikafka.controller.raft.voter_history import Membership, VoterHistory
from minikafka.protocol.records.batch import parse_header

if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = struct.Struct(">qiHH")
"""The header of an entry in fetched records: base offset, epoch, record count, payload size."""


class Entry(NamedTuple):
    """A batch in the log: record count, epoch, payload."""

    count: int
    epoch: int
    payload: bytes

    @property
    def membership(self) -> list[tuple[int, MembershipRecord]]:
        """The records of the voters in it, with their offsets relative to its first record."""
        return membership_in(parse_header(self.payload)) if is_real(self.payload) else []


def is_real(payload: bytes) -> bool:
    """Whether it is a real batch, which begins with its base offset of 0."""
    return payload[:8] == bytes(8)


VOTERS_FOLLOW = b"\xffvoters"


def with_voters(data: bytes, membership: Membership) -> bytes:
    """The content of a snapshot with its voters; static quorums have none."""
    if not membership.kraft_version or membership.voters is None:
        return data
    named = [control_value(membership.kraft_version), control_value(membership.voters)]
    return data + VOTERS_FOLLOW + control_batch(named, timestamp_ms=0)


def voters_of(data: bytes, offset: int) -> Membership:
    """The inverse of `with_voters`, of a snapshot at `offset`."""
    history = VoterHistory()
    _, mark, batch = data.partition(VOTERS_FOLLOW)
    if mark:
        history.append(membership_in(parse_header(batch)))
    return history.latest._replace(offset=offset - 1)


class Records:
    """Entries with their offsets, and the snapshot before them."""

    __slots__ = (
        "bases", "end_offset", "entries", "last_epoch", "snapshot", "snapshot_data", "start_epoch", "start_offset",
    )  # fmt: skip

    def __init__(self) -> None:
        self.start_offset = 0
        self.start_epoch = 0
        self.end_offset = 0
        self.last_epoch = 0
        self.bases: list[int] = []
        self.entries: list[Entry] = []
        self.snapshot: SnapshotId | None = None
        self.snapshot_data = b""

    def append(self, entry: Entry) -> None:
        assert entry.epoch >= self.last_epoch, "epochs in a log never decrease"
        self.bases.append(self.end_offset)
        self.entries.append(entry)
        self.end_offset += entry.count
        self.last_epoch = entry.epoch

    def truncate_to(self, offset: int) -> None:
        assert self.start_offset <= offset < self.end_offset, "the offset is inside the log"
        while self.end_offset > offset:
            self.entries.pop()
            self.end_offset = self.bases.pop()
        assert self.end_offset == offset, f"{offset} is not the end of a batch"
        self.last_epoch = self.entries[-1].epoch if self.entries else self.start_epoch

    def take_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """Keep a snapshot beside the log."""
        self.snapshot, self.snapshot_data = snapshot, data

    def trim_to(self, snapshot: SnapshotId) -> None:
        """Remove the records that a snapshot replaces."""
        keep = bisect_right(self.bases, snapshot.offset - 1)
        del self.bases[:keep], self.entries[:keep]
        self.start_offset, self.start_epoch = snapshot
        if not self.entries:
            self.end_offset, self.last_epoch = max(self.end_offset, snapshot.offset), snapshot.epoch

    def start_at(self, snapshot: SnapshotId, data: bytes) -> None:
        self.bases.clear()
        self.entries.clear()
        if self.snapshot is None or self.snapshot.offset <= snapshot.offset:
            self.snapshot, self.snapshot_data = snapshot, data
        self.start_offset, self.start_epoch = snapshot
        self.end_offset, self.last_epoch = snapshot

    def epoch_before(self, offset: int) -> int:
        """The epoch of the last record before an offset in the log, or before its end."""
        index = bisect_right(self.bases, offset - 1)
        return self.entries[index - 1].epoch if index else self.start_epoch

    def copy(self) -> Records:
        other = Records()
        other.start_offset, other.start_epoch = self.start_offset, self.start_epoch
        other.end_offset, other.last_epoch = self.end_offset, self.last_epoch
        other.bases, other.entries = self.bases[:], self.entries[:]
        other.snapshot, other.snapshot_data = self.snapshot, self.snapshot_data
        return other


Change = tuple[str, tuple[Any, ...]]


class DiskLog:
    """The durable records, and the changes since, of which a crash keeps a random prefix.

    Args:
        bootstrap: what the bootstrap checkpoint names.
    """

    def __init__(self, bootstrap: Membership | None = None) -> None:
        self.bootstrap = bootstrap
        self.records = Records()
        self.changes: deque[Change] = deque()
        self.applied = 0

    @property
    def mark(self) -> int:
        """The position up to which a sync that starts now covers the changes."""
        return self.applied + len(self.changes)

    def sync(self, mark: int) -> None:
        """Make everything before `mark` durable."""
        while self.applied < mark:
            name, arguments = self.changes.popleft()
            getattr(self.records, name)(*arguments)
            self.applied += 1

    def crash(self, random: Random) -> int:
        """Lose unsynced changes except a random prefix; returns how many are lost."""
        self.sync(self.applied + random.randint(0, len(self.changes)))
        lost = len(self.changes)
        self.changes.clear()
        return lost

    def write_snapshot(self, snapshot: SnapshotId, data: bytes) -> None:
        """Write a snapshot, which is a file of its own and durable at once."""
        self.records.take_snapshot(snapshot, data)


class SimulatedLog:
    """The log of a running node, opened from its disk after each crash."""

    def __init__(self, disk: DiskLog, observe: Callable[[int, int, Entry], None]) -> None:
        self._disk = disk
        self._observe = observe
        durable = disk.records
        snapshot = durable.snapshot
        if snapshot is not None:
            is_behind = durable.end_offset < snapshot.offset
            if is_behind or durable.epoch_before(snapshot.offset) != snapshot.epoch:
                durable.start_at(snapshot, durable.snapshot_data)
            elif durable.start_offset < snapshot.offset:
                durable.trim_to(snapshot)
        self.records = durable.copy()
        self.history = VoterHistory(disk.bootstrap)
        if snapshot is not None:
            self.history.start_at(voters_of(durable.snapshot_data, snapshot.offset))
        for base, entry in zip(durable.bases, durable.entries, strict=True):
            self._note_voters(base, entry)
        self.truncations = 0

    def _note_voters(self, base: int, entry: Entry) -> None:
        self.history.append((base + delta, record) for delta, record in entry.membership)

    @property
    def start_offset(self) -> int:
        return self.records.start_offset

    @property
    def start_epoch(self) -> int:
        return self.records.start_epoch

    @property
    def end_offset(self) -> int:
        return self.records.end_offset

    @property
    def last_epoch(self) -> int:
        return self.records.last_epoch

    def end_offset_for(self, epoch: int) -> EpochEnd:
        records = self.records
        end = records.end_offset
        for index in range(len(records.entries) - 1, -1, -1):
            found = records.entries[index].epoch
            if found <= epoch:
                return EpochEnd(found, end)
            end = records.bases[index]
        return EpochEnd(records.start_epoch, records.start_offset)

    def read(self, offset: int, max_bytes: int) -> bytes:
        records = self.records
        index = bisect_right(records.bases, offset) - 1
        assert index >= 0, "the offset is in the log"
        assert records.bases[index] == offset, "reads start at a batch"
        data = bytearray()
        while index < len(records.entries):
            entry = records.entries[index]
            size = HEAD.size + len(entry.payload)
            if data and len(data) + size > max_bytes:
                break
            data += HEAD.pack(records.bases[index], entry.epoch, entry.count, len(entry.payload)) + entry.payload
            index += 1
        return bytes(data)

    def append_as_leader(self, batches: bytes, epoch: int) -> int:
        """Append one batch. The first byte of a synthetic batch is its record count."""
        count = parse_header(batches).next_offset if is_real(batches) else batches[0]
        return self._append(Entry(count, epoch, batches))

    def append_as_follower(self, batches: bytes) -> int:
        position = 0
        while position < len(batches):
            base, epoch, count, size = HEAD.unpack_from(batches, position)
            position += HEAD.size
            if base != self.records.end_offset:
                raise ValueError(f"a batch of offset {base} at {self.records.end_offset}")
            self._append(Entry(count, epoch, batches[position : position + size]))
            position += size
        return self.records.end_offset

    def _append(self, entry: Entry) -> int:
        records = self.records
        self._observe(records.end_offset, records.last_epoch, entry)
        self._note_voters(records.end_offset, entry)
        records.append(entry)
        self._disk.changes.append(("append", (entry,)))
        return records.end_offset

    def truncate_to(self, offset: int) -> None:
        self.truncations += 1
        self.records.truncate_to(offset)
        self.history.truncate_to(offset)
        self._disk.changes.append(("truncate_to", (offset,)))

    def latest_snapshot(self) -> SnapshotId | None:
        return self.records.snapshot

    def read_snapshot(self, snapshot: SnapshotId, position: int, size_max: int) -> tuple[int, bytes] | None:
        if snapshot != self.records.snapshot:
            return None
        data = self.records.snapshot_data
        return len(data), data[position : position + size_max]

    def start_at(self, snapshot: SnapshotId, data: bytes) -> None:
        self.records.start_at(snapshot, data)
        self.history.start_at(voters_of(data, snapshot.offset))
        self._disk.changes.append(("start_at", (snapshot, data)))

    def write_snapshot(self, offset: int, data: bytes, *, trim: bool) -> None:
        """Write the node's snapshot of everything before `offset`; `trim` removes those records."""
        snapshot = SnapshotId(offset, self.records.epoch_before(offset))
        data = with_voters(data, self.history.before(offset))
        self.records.take_snapshot(snapshot, data)
        self._disk.write_snapshot(snapshot, data)
        if trim:
            self.records.trim_to(snapshot)
            self.history.forget_before(offset)
            self._disk.changes.append(("trim_to", (snapshot,)))
