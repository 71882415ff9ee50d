"""`LogState`: the segments, offsets and caches of one log (Kafka's `LocalLog`), without the error handling.

`recovery.Loader` makes it from the files. `Log` is the interface to it: it takes the log offline after an error.
"""

from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks.checkpoint_files import EPOCHS
from minikafka.storage.disks.disk import Disk
from minikafka.storage.log_config import LogConfig
from minikafka.storage.logs.leader_epochs import LeaderEpochs
from minikafka.storage.logs.log_context import Checkpointed, LogContext, LogOwner
from minikafka.storage.logs.producer_snapshots import ProducerSnapshots
from minikafka.storage.logs.producer_state import ProducerStates
from minikafka.storage.logs.unflushed import Unflushed
from minikafka.storage.segments.segment import Segment
from minikafka.storage.segments.segments import Segments


class LogState:
    """The state of an open log. All methods may raise OSError.

    Attributes:
        start_offset, end_offset: the first offset that can be read, and the offset of the next append.
        epochs, producers: the leader epoch cache and the producer state, which the log keeps up to date.
        deleted_files: (the time in ms at which to remove it, path) of each deleted file.
        owner: the callbacks of the log.
    """

    def __init__(
        self,
        context: LogContext,
        topic_partition: TopicPartition,
        segments: Segments,
        snapshots: ProducerSnapshots,
        checkpointed: Checkpointed,
        owner: LogOwner,
    ) -> None:
        self.context = context
        self.topic_partition = topic_partition
        self.segments = segments
        self.snapshots = snapshots
        self.epochs = LeaderEpochs(context.disk, f"{segments.directory}/{EPOCHS}", [])
        self.producers = ProducerStates(topic_partition)
        self.start_offset = checkpointed.start_offset
        self.end_offset = 0
        self.unflushed = Unflushed(checkpointed.recovery_point, context.now_ms())
        self.deleted_files: list[tuple[int, str]] = []
        self.owner = owner

    @property
    def disk(self) -> Disk:
        return self.context.disk

    @property
    def directory(self) -> str:
        return self.segments.directory

    @property
    def config(self) -> LogConfig:
        return self.segments.config

    def roll(self, first_offset: int | None = None) -> None:
        """Starts a new segment, as `Log.roll` says."""
        base, active, unflushed = max(first_offset or 0, self.end_offset), self.segments.active, self.unflushed
        if base == active.base_offset:
            return
        active.seal()
        new = Segment.create(self.disk, self.directory, base, self.config, now_ms=self.context.now_ms())
        unflushed.touched[active] = None
        self.segments.append(new)
        unflushed.names = unflushed.has_changed = True
        self.producers.end_offset = base
        self.snapshots.take_later(self.producers)
        self.set_jitter()

    def set_jitter(self) -> None:
        """Chooses how much earlier than `segment.ms` the active segment is rolled."""
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        self.segments.active.jitter_ms = self.context.random.randrange(limit) if limit > 0 else 0

    def drop(self, segments: list[Segment]) -> None:
        """Deletes segments that were removed from `segments`, the last segment first, so that a crash leaves no gap."""
        for segment in reversed(segments):
            self.delete_later(segment.mark_deleted())
            self.unflushed.touched.pop(segment, None)
        self.unflushed.names = self.unflushed.has_changed = True

    def delete_later(self, paths: list[str]) -> None:
        """Removes files after `file.delete.delay.ms`."""
        due_ms = self.context.now_ms() + self.config.file_delete_delay_ms
        self.deleted_files += [(due_ms, path) for path in paths]

    def lower_recovery_point(self, offset: int) -> None:
        """Lowers the recovery point to `offset`. Must be called before flushed data from `offset` on is truncated."""
        self.unflushed.truncations += 1
        if offset < self.unflushed.recovery_point:
            self.unflushed.recovery_point = offset
            self.owner.on_truncation(self.topic_partition, offset)

    def update_config(self, config: LogConfig) -> None:
        """Applies changed configs."""
        self.segments.update_config(config)
        self.set_jitter()

    def move(self, directory: str) -> None:
        """Sets the new path of the log's directory, which was renamed."""
        self.snapshots.directory = directory
        self.segments.move(directory)
        self.epochs.path = f"{directory}/{EPOCHS}"
        self.deleted_files.clear()  # They are removed with the directory.
