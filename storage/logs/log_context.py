"""`LogContext`, `LogOwner` and `Checkpointed`: what a log receives from its node and from its data directory."""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from minikafka.protocol.names import TopicPartition
from minikafka.storage.disks.disk import Disk
from minikafka.storage.log_config import PRODUCER_EXPIRATION_MS

OnError = Callable[[Exception], None]


@dataclass(slots=True)
class LogContext:
    """The disk, the clock, the random numbers and the settings that all logs of a node share.

    Attributes:
        now_ms: the wall clock.
        random: the source of `segment.jitter.ms`.
        producer_expiration_ms: `producer.id.expiration.ms`, which may change while the logs are open.
    """

    disk: Disk
    now_ms: Callable[[], int]
    random: Random = field(default_factory=lambda: Random(0))
    producer_expiration_ms: int = PRODUCER_EXPIRATION_MS

    @property
    def expired_ms(self) -> int:
        """The time up to which a producer without later appends has expired."""
        return self.now_ms() - self.producer_expiration_ms


@dataclass(frozen=True, slots=True)
class LogOwner:
    """The callbacks of a log to its data directory.

    Attributes:
        on_failure: called when the log goes offline, and with each passing error.
        on_damage: called for each read of corrupt batches.
        on_gap: called by each read that passes a gap between two segments of a log that is not compacted, with the path
            of the first of the two, the offset at which it ends, and the base offset of the other one.
        on_truncation: called before flushed data is truncated, with the lowered recovery point, which must be written
            to the checkpoint first.
    """

    on_failure: OnError = lambda error: None
    on_damage: OnError = lambda error: None
    on_gap: Callable[[str, int, int], None] = lambda path, end, base: None
    on_truncation: Callable[[TopicPartition, int], None] = lambda key, recovery_point: None


UNOWNED = LogOwner()


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The content of the checkpoint files of a data directory for a log that is not open yet.

    Attributes:
        clean: whether the last shutdown was clean, so that the files are trusted.
        recovery_point: everything before this offset was flushed.
        start_offset: the log start offset.
        cleaner_offset: the offset in the cleaner's checkpoint; None if the directory has no checkpoints.
    """

    clean: bool = False
    recovery_point: int = 0
    start_offset: int = 0
    cleaner_offset: int | None = None
