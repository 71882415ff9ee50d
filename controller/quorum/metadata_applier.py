"""Applies the committed metadata log to this node's image, batch by batch, and notifies subscribers.

Each batch is one decision: it is applied as a whole, then the subscribers are called, then the applied offset advances,
which wakes the tasks that wait for it. Where a snapshot has replaced the log, the image takes over the snapshot's
content in place, and the subscribers get the difference. The applier also writes snapshots of the image
(`snapshot_schedule.py`). Trio: a task that waits for commits.
"""

from collections.abc import Sequence
from dataclasses import fields
from typing import Protocol

import structlog
import trio

from minikafka.controller.metadata.change_log import MetadataChanges
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.metadata_log import decoded_records
from minikafka.controller.metadata.records import ClientQuotaRecord, ConfigRecord, Record, RemoveAcl, RemoveTopic
from minikafka.controller.metadata.snapshot_encoding import (
    decode_snapshot,
    records_of,
    snapshot_content,
    snapshot_records,
)
from minikafka.controller.metadata.snapshot_schedule import SnapshotSchedule
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, applying, record_weight
from minikafka.controller.metadata.subscribers import Subscriber, notify
from minikafka.controller.quorum.applied_offset import AppliedOffset
from minikafka.controller.quorum.raft_log import StoredRaftLog
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.protocol.errors import KafkaStorageError
from minikafka.protocol.records.batch import Batch
from minikafka.storage.steps import Pauses, in_steps

__all__ = ["MetadataApplier", "OwnTerm"]

log = structlog.get_logger("minikafka.controller")

READ_SIZE = 1 << 20


class OwnTerm(Protocol):
    """The leadership term of this node's active controller."""

    def records_at(self, offset: int) -> Sequence[Record] | None:
        """The records that this node wrote at an offset, so that they need not be decoded; None otherwise."""
        ...

    def applied(self, offset: int) -> None:
        """Complete the decisions before `offset`, which are committed and applied."""
        ...

    def end(self, high_watermark: int) -> None:
        """End the term. Everything before the high watermark is committed."""
        ...


class MetadataApplier:
    """Applies committed records. The constructor reads the newest snapshot.

    Args:
        stored: the metadata log.
        snapshot_bytes: `metadata.log.max.record.bytes.between.snapshots`.

    Attributes:
        image: the committed metadata; always the same object.
        progress: the applied offset.
        term: the term of this node's active controller; None if this node is not active.

    Raises:
        UnreadableRecord: the snapshot is damaged or written by a newer minikafka.
    """

    def __init__(self, stored: StoredRaftLog, snapshot_bytes: int) -> None:
        self.image = Image()
        self.term: OwnTerm | None = None
        self._stored = stored
        self._schedule = SnapshotSchedule(snapshot_bytes)
        self._subscribers: list[Subscriber] = []
        self._pauses = Pauses(ELEMENTS_IN_A_STEP)
        self._high_watermark = 0
        self._installed: tuple[SnapshotId, bytes] | None = None
        self._committed = trio.Event()
        snapshot, data = stored.latest_snapshot() or SnapshotId(0, 0), stored.snapshot_data()
        self._epoch = snapshot.epoch
        self.progress = AppliedOffset(snapshot.offset)
        for record in decode_snapshot(data) if data is not None else []:
            self.image.apply(record)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with the committed records of each batch, after the image has changed. It may let other
        tasks run; the next batch is applied when it has returned. For its exceptions see `notify`."""
        self._subscribers.append(subscriber)

    def committed(self, high_watermark: int) -> None:
        """Raise the high watermark: everything before it is committed and can be applied."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._committed.set()

    def installed(self, snapshot: SnapshotId, data: bytes) -> None:
        """Note that a snapshot has replaced the log, and is to replace the content of the image."""
        self._installed = (snapshot, data)
        self.committed(snapshot.offset)

    async def run(self) -> None:
        """Apply until cancelled. A record that cannot be applied stops the node (KAFKA-14275)."""
        while True:
            await self._committed.wait()
            self._committed = trio.Event()
            while self._has_work():
                if self._installed is not None:
                    await self._install(*self._installed)
                else:
                    await self._apply_committed()

    def _has_work(self) -> bool:
        """Whether there is a snapshot to install, or a committed batch to apply. If the log starts beyond the applied
        offset, a snapshot is about to be installed, and batches must wait for it."""
        if self._installed is not None:
            return True
        return self._stored.start_offset <= self.progress.offset < self._high_watermark

    async def _apply_committed(self) -> None:
        for batch in self._stored.committed(self.progress.offset, self._high_watermark, READ_SIZE):
            await self._apply(batch)
            if self._installed is not None:
                return
        await self._snapshot_if_due()

    async def _apply(self, batch: Batch) -> None:
        own = None if self.term is None else self.term.records_at(batch.base_offset)
        records = await in_steps(decoded_records(batch)) if own is None else own
        changes = None if own is None else MetadataChanges(self.image, own)
        if self._pauses.is_due(items=record_weight(len(batch.data), len(records))):
            await trio.lowlevel.checkpoint()
        for record in records:
            self.image.apply(record)
        if changes is not None:
            await in_steps(changes.logging())
        await notify(self._subscribers, records)
        self._epoch = batch.leader_epoch
        self._advance(batch.next_offset)

    def _advance(self, offset: int) -> None:
        self.progress.advance(offset)
        if self.term is not None:
            self.term.applied(offset)

    async def _install(self, snapshot: SnapshotId, data: bytes) -> None:
        self._installed = None
        if snapshot.offset <= self.progress.offset:
            return  # everything in it is applied already
        records, image = await in_steps(snapshot_records(data)), Image()
        await in_steps(applying(image, records))
        removed = _removed(self.image, image)
        _replace_content(self.image, image)
        await notify(self._subscribers, [*removed, *records])
        self._epoch = snapshot.epoch
        self._advance(snapshot.offset)

    async def _snapshot_if_due(self) -> None:
        """Write a snapshot from time to time, so that a start need not replay the whole log."""
        if not self._schedule.is_due(self._stored.bytes_since_snapshot):
            return
        snapshot = SnapshotId(self.progress.offset, self._epoch)
        voters = self._stored.history.before(snapshot.offset)
        content = await in_steps(snapshot_content(records_of(self.image), voters))  # This task alone changes the image.
        try:
            await self._stored.write_snapshot(snapshot, content)
            self._schedule.written()
        except (OSError, KafkaStorageError) as error:
            self._schedule.failed(self._stored.bytes_since_snapshot)
            log.error("metadata snapshot failed", error=str(error), offset=snapshot.offset)


def _removed(image: Image, successor: Image) -> list[Record]:
    """Records that remove the topics, configs, ACLs and quotas of `image` that its successor does not have. A snapshot
    itself has no records of removals."""
    topics = [RemoveTopic(topic_id) for topic_id in image.topics_by_id if topic_id not in successor.topics_by_id]
    configs = [
        ConfigRecord(resource_type, resource_name, name, None)
        for (resource_type, resource_name), values in image.configs.items()
        for name in values
        if name not in successor.config(resource_type, resource_name)
    ]
    acls = [RemoveAcl(acl) for acl in image.acls if acl not in successor.acls]
    quotas = [
        ClientQuotaRecord(entity, key, None)
        for entity, values in image.quotas.items()
        for key in values
        if key not in successor.quotas.get(entity, {})
    ]
    return [*topics, *configs, *acls, *quotas]


def _replace_content(image: Image, other: Image) -> None:
    """Copy the content of `other` into `image` and its dictionaries, so that references to them stay valid."""
    for one in fields(Image):
        old, new = getattr(image, one.name), getattr(other, one.name)
        if isinstance(old, dict):
            old.clear()
            old.update(new)
        else:
            setattr(image, one.name, new)
