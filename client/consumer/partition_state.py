"""`PartitionState`: the positions of one assigned partition, and the conditions for fetching it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any, NamedTuple

from minikafka.protocol.names import TopicPartition

_EPOCHS_MAX = 16
"""The number of leader epochs that a partition remembers; positions are within the last few epochs."""


class Left(NamedTuple):
    """The offsets of a partition that was given up; the fields are those of `PartitionState`."""

    position: int
    processed: int | None
    resumes_at: int | None


class PartitionState:
    """The state of one assigned partition.

    Attributes:
        position: the offset after the last record returned; None until it is known.
        processed: the offset after the last record that was processed.
        resumes_at: where the group's next reader begins if this consumer commits nothing more: the offset at which this
            consumer began, or which it has committed last; None before both.
        fetch_offset: the offset of the next fetch; None until it is known.
        reset: how to find the position instead of by committed offset: "earliest", "latest", or "none" after
            a failure.
        reset_from: the offset that was out of range, while another offset is looked up; else None.
        era: incremented when the position is set by a seek, a reset or an assignment, rather than by reading.
        buffered: the number of buffered fetch responses.
        is_refused: whether the leader has refused `fetch_offset` as out of range; it is fetched again once the
            buffered records were returned.
        not_before: no fetch before this time, on the event loop's clock.
        fetch_epoch: the leader epoch of the batch before `fetch_offset`; -1 if it is unknown.
        validated_epoch: the leader epoch for which the log is known to contain `fetch_offset` (KIP-320).
        preferred_replica: the node to fetch from instead of the leader; -1 for none (KIP-392).
        stop_offset: with `stop_at`, the end of the partition when it was assigned; None until it is known.
        preferred_until: when to ask the leader again, on the event loop's clock.
        trouble: the problem of the last response, as text; "" if there was no problem, or no response.
        resets: how often the position was reset since the leader last accepted a fetch.
    """

    __slots__ = (
        "_epochs", "buffered", "era", "fetch_epoch", "fetch_offset", "high_watermark", "in_flight",
        "is_refused", "last_stable_offset", "log_start_offset", "not_before", "paused", "position", "preferred_replica",
        "preferred_until", "processed", "reset", "reset_from", "resets", "resumes_at",
        "stop_offset", "tp", "trouble", "validated_epoch",
    )  # fmt: skip

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.position: int | None = None
        self.processed: int | None = None
        self.resumes_at: int | None = None
        self.fetch_offset: int | None = None
        self.reset: str | None = None
        self.reset_from: int | None = None
        self.era = 0
        self.buffered = 0
        self.in_flight = self.is_refused = False
        self.paused = False
        self.not_before = 0.0
        self.fetch_epoch = self.validated_epoch = -1
        self._epochs: list[tuple[int, int]] = []
        self.stop_offset: int | None = None
        self.preferred_replica = -1
        self.preferred_until = 0.0
        self.trouble = ""
        self.resets = 0
        self.high_watermark = self.last_stable_offset = self.log_start_offset = -1

    def move(self, offset: int | None, epoch: int = -1) -> None:
        """Continue at `offset`, after a batch of leader epoch `epoch`; None: the position must be looked up."""
        self.era += 1
        self.position = self.processed = self.fetch_offset = offset
        self.fetch_epoch = epoch
        self._epochs = [] if offset is None or epoch < 0 else [(offset - 1, epoch)]
        self.validated_epoch = -1
        self.buffered = 0
        self.is_refused = False
        self.not_before = 0.0
        self.reset = self.reset_from = None

    def answered(self, data: Any) -> None:
        """Store the offsets of the log that a response without an error reports."""
        self.is_refused = False
        self.trouble = ""
        self.resets = 0
        self.high_watermark = data.high_watermark
        self.last_stable_offset = data.last_stable_offset
        self.log_start_offset = data.log_start_offset

    def fetched(self, batches: Iterable[tuple[int, int]]) -> None:
        """Remember the leader epochs of the next batches: pairs of base offset and leader epoch."""
        for base_offset, epoch in batches:
            if not self._epochs or self._epochs[-1][1] != epoch:
                self._epochs = [*self._epochs[1 - _EPOCHS_MAX :], (base_offset, epoch)]
                self.fetch_epoch = epoch

    def epoch_before(self, offset: int) -> int:
        """The leader epoch of the batch before `offset`, to be committed with the offset; -1 if it is unknown."""
        index = bisect_left(self._epochs, (offset, -1))
        return self._epochs[index - 1][1] if index else -1

    def is_at_stop(self, offset: int | None) -> bool:
        """Whether an offset has reached `stop_offset`. An offset beyond it counts only if the high watermark of a fetch
        shows that the log has grown so far; otherwise the offset may be out of range, and must be fetched."""
        if offset is None or self.stop_offset is None:
            return False
        return offset == self.stop_offset or self.stop_offset < offset <= self.high_watermark

    @property
    def ends_early(self) -> bool:
        """Whether all of the log was fetched, and it ends before `stop_offset`: it was longer when it was assigned."""
        if self.stop_offset is None or self.fetch_offset is None or self.high_watermark < 0:
            return False
        return self.high_watermark <= self.fetch_offset < self.stop_offset

    @property
    def shortened(self) -> str:
        """A description of a log that `ends_early`, for messages."""
        return f"ends at offset {self.high_watermark}, and ended at offset {self.stop_offset} when it was assigned"

    def needs_validation(self, leader_epoch: int) -> bool:
        """Whether a leader was elected since the last fetch, whose log may end before `fetch_offset` (KIP-320)."""
        if self.fetch_epoch < 0 or leader_epoch < 0:
            return False
        return leader_epoch > max(self.validated_epoch, self.fetch_epoch)
