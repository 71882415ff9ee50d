"""Makes a node's image out of what the quorum has committed, batch by batch, and tells whoever follows it.

Each batch is a decision: it is applied whole, then told, then passed; nobody who waits for it is woken before. Where a
snapshot has taken the log's place the image becomes that of the snapshot, in place, and the difference is told.
Every so often the image is written as a snapshot of this node's own. Trio: it is a task that waits for news.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields

import structlog
import trio

from minikafka.controller.active.leadership_term import Term
from minikafka.controller.applied_offset import Progress
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record, RemoveTopic
from minikafka.controller.metadata.snapshot_encoding import decode_snapshot, encode_snapshot, records_of
from minikafka.controller.quorum.raft_log import StoredLog
from minikafka.controller.raft import SnapshotId
from minikafka.controller.standalone_log import records_in
from minikafka.protocol.records.batch import Batch

__all__ = ["Applier", "Subscriber"]

log = structlog.get_logger("minikafka.controller")

READ_SIZE = 1 << 20
RECORDS_AT_ONCE = 20
"""As many are told to subscribers before others get their turn: a broker opens a log for each new partition, which may
take milliseconds, and has heartbeats to send meanwhile."""
Subscriber = Callable[[Sequence[Record]], None]


class Applier:
    """See above. Made, it has read the newest snapshot.

    Args:
        stored: the log.
        snapshot_bytes: `metadata.log.max.record.bytes.between.snapshots`.

    Attributes:
        image: the cluster, as committed; always the same object.
        progress: how far the log is applied.
        term: whose own records need not be read again; None where this node does not decide.

    Raises:
        UnreadableRecord: the snapshot is damaged or of a newer minikafka.
    """

    def __init__(self, stored: StoredLog, snapshot_bytes: int) -> None:
        self.image = Image()
        self.term: Term | None = None
        self._stored = stored
        self._snapshot_bytes = snapshot_bytes
        self._bytes_at_failure = 0
        self._subscribers: list[Subscriber] = []
        self._high_watermark = 0
        self._installed: tuple[SnapshotId, bytes] | None = None
        self._news = trio.Event()
        snapshot, data = stored.latest_snapshot() or SnapshotId(0, 0), stored.snapshot_data()
        self._epoch = snapshot.epoch
        self.progress = Progress(snapshot.offset)
        for record in decode_snapshot(data) if data is not None else []:
            self.image.apply(record)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Have `subscriber` called with committed records, in portions, after the image has changed. What it raises
        ends the node."""
        self._subscribers.append(subscriber)

    def committed(self, high_watermark: int) -> None:
        """Everything before will last."""
        self._high_watermark = max(self._high_watermark, high_watermark)
        self._news.set()

    def installed(self, snapshot: SnapshotId, data: bytes) -> None:
        """The log begins with this snapshot now."""
        self._installed = (snapshot, data)
        self.committed(snapshot.offset)

    async def run(self) -> None:
        """Apply until cancelled. What cannot be applied ends the node."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            while self._has_work():
                if self._installed is not None:
                    await self._install(*self._installed)
                else:
                    await self._apply_some()

    def _has_work(self) -> bool:
        """Where the log begins behind what is applied, the snapshot is on its way."""
        if self._installed is not None:
            return True
        return self._stored.start_offset <= self.progress.offset < self._high_watermark

    async def _apply_some(self) -> None:
        for batch in self._stored.committed(self.progress.offset, self._high_watermark, READ_SIZE):
            await self._apply(batch)
            if self._installed is not None:
                return
        await self._snapshot_if_due()

    async def _apply(self, batch: Batch) -> None:
        own = None if self.term is None else self.term.records_at(batch.base_offset)
        records = records_in(batch) if own is None else own
        for record in records:
            self.image.apply(record)
        await self._tell(records)
        self._epoch = batch.leader_epoch
        self._pass(batch.next_offset)

    def _pass(self, offset: int) -> None:
        self.progress.advance(offset)
        if self.term is not None:
            self.term.applied(offset)

    async def _tell(self, records: Sequence[Record]) -> None:
        for start in range(0, len(records), RECORDS_AT_ONCE):
            if start:
                await trio.lowlevel.checkpoint()
            for subscriber in self._subscribers:
                subscriber(records[start : start + RECORDS_AT_ONCE])

    async def _install(self, snapshot: SnapshotId, data: bytes) -> None:
        self._installed = None
        if snapshot.offset <= self.progress.offset:
            return  # what it has to tell is known
        records, image = decode_snapshot(data), Image()
        for record in records:
            image.apply(record)
        gone = [RemoveTopic(topic_id) for topic_id in self.image.topics_by_id if topic_id not in image.topics_by_id]
        _become(self.image, image)
        await self._tell([*gone, *records])
        self._epoch = snapshot.epoch
        self._pass(snapshot.offset)

    async def _snapshot_if_due(self) -> None:
        """So that the next start need not read everything."""
        if self._stored.bytes_since_snapshot - self._bytes_at_failure < self._snapshot_bytes:
            return
        snapshot = SnapshotId(self.progress.offset, self._epoch)
        try:
            await self._stored.write_snapshot(snapshot, encode_snapshot(records_of(self.image)))
            self._bytes_at_failure = 0
        except OSError as error:
            self._bytes_at_failure = self._stored.bytes_since_snapshot
            log.error("the metadata snapshot could not be written", error=str(error))


def _become(image: Image, other: Image) -> None:
    """Make an image, and each of its dictionaries, the same as another: whoever holds one of them sees the change."""
    for one in fields(Image):
        old, new = getattr(image, one.name), getattr(other, one.name)
        if isinstance(old, dict):
            old.clear()
            old.update(new)
        else:
            setattr(image, one.name, new)
