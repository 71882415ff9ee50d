"""One leadership term of the active controller: its queue, an image ahead of the committed one, pending decisions.

A decision is made against the effects of all earlier decisions of the term, committed or not, in an image that is
private to the term. The sender gets the reply once the decision is committed and this node has applied it. If the term
ends first it gets TermEnded, which says whether the outcome is known. The only voter refuses decisions that its full
disk cannot take; where there are other voters, the node stops, so that one of them leads. Trio: senders wait.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog
import trio

from minikafka.controller.active.request_queue import QUEUE_MAX, Decide, PendingDecision, RequestQueue
from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image, copy_image
from minikafka.controller.metadata.records import Record
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP
from minikafka.controller.raft.raft import NotLeader
from minikafka.protocol.errors import KafkaStorageError, NotControllerError
from minikafka.storage.steps import in_steps

__all__ = ["LeadershipTerm", "Outcome", "ReceiverLost", "TermEnded"]

log = structlog.get_logger("minikafka.controller")

Reply = TypeVar("Reply")
REFUSALS_LOGGED_S = 60.0


class TermEnded(NotControllerError):
    """This node is not the active controller, or its term ended while a request waited.

    Attributes:
        certain: True if the request was certainly not carried out; False if that is unknown.
    """

    def __init__(self, *, certain: bool) -> None:
        super().__init__("This is not the correct controller for this cluster.")
        self.certain = certain


class ReceiverLost(TermEnded):
    """The connection to the active controller was lost while a request waited; the request may have caused the loss."""

    def __init__(self) -> None:
        super().__init__(certain=False)


@dataclass(slots=True, frozen=True)
class Outcome(Generic[Reply]):
    """A decision that is committed and applied. Every record that it depends on is before `end_offset`."""

    decision: Decision[Reply]
    end_offset: int

    @property
    def reply(self) -> Reply:
        return self.decision.reply


class LeadershipTerm:
    """The decisions of one node between its election and the end of its leadership.

    Args:
        epoch: the leader epoch of the quorum.
        image: the complete image; it is copied.
        end_offset: the end of the metadata log.
        append: appends batches to the log and returns the end offset; raises NotLeader.
        now_ms: returns the time of the wall clock in milliseconds.
        may_refuse: returns whether the term goes on after an append that has failed without a trace.

    Attributes:
        start_offset: the end of the metadata log when this node was elected.
        now_ms: returns the time of the wall clock in milliseconds.
    """

    def __init__(
        self,
        epoch: int,
        image: Image,
        end_offset: int,
        append: Callable[[bytes], int],
        now_ms: Callable[[], int],
        may_refuse: Callable[[], bool] = lambda: False,
    ) -> None:
        self.epoch = epoch
        self._image = image
        self._decided = copy_image(image)
        self.start_offset = self._end_offset = self._applied = end_offset
        self._append = append
        self.now_ms = now_ms
        self._may_refuse = may_refuse
        self._refusals = _Refusals()
        self._pending: deque[PendingDecision[Any]] = deque()
        self._room = trio.Event()
        self._own_records: dict[int, Sequence[Record]] = {}
        self._ended = False
        self._queue = RequestQueue(lambda: TermEnded(certain=True))

    async def run(self) -> None:
        """Decide until the end of the term."""
        while not self._ended:
            try:
                first = await self._queue.next()
            except trio.ClosedResourceError:
                return
            if self._ended:  # the term ended after the queue handed it over and before this task ran
                first.fail(TermEnded(certain=True))
                return
            decided = await in_steps(self._queue.deciding(first, self._decided, self.now_ms()))
            if await self._write(decided):
                self._pending += decided
                self.applied(self._applied)  # A decision without records is done if all that it depends on is applied.
            await self._wait_for_pending(QUEUE_MAX - 1)

    async def _wait_for_pending(self, count_max: int) -> None:
        """Wait until at most `count_max` decisions are pending."""
        while len(self._pending) > count_max:
            self._room = trio.Event()
            await self._room.wait()

    async def submit(self, decide: Decide[Reply], elements: int = ELEMENTS_IN_A_STEP) -> Outcome[Reply]:
        """Queue a decision; return once it is committed and applied. After cancellation it may be carried out or not.

        Raises:
            KafkaError: raised by `decide`.
            TermEnded: the term ended first.
        """
        pending = await self._queue.submit(decide, elements)
        return Outcome(pending.decided, pending.end_offset)

    def records_at(self, offset: int) -> Sequence[Record] | None:
        """The records that this term wrote at an offset, so that they need not be decoded again; None otherwise."""
        return self._own_records.pop(offset, None)

    def applied(self, offset: int) -> None:
        """Complete the decisions before `offset`, which are committed and applied to this node's image."""
        self._applied = offset
        while self._pending and self._pending[0].end_offset <= offset:
            self._pending.popleft().done.set()
        self._room.set()

    def end(self, high_watermark: int) -> None:
        """End the term because this node leads no longer. Waiting requests fail with TermEnded, except decisions below
        the high watermark; the outcome of those with records beyond it is unknown."""
        if self._ended:
            return
        self._ended = True
        self._own_records.clear()
        for waiting in self._queue.close():
            waiting.fail(TermEnded(certain=True))
        committed = deque(pending for pending in self._pending if pending.end_offset <= high_watermark)
        for pending in self._pending:
            if pending.end_offset > high_watermark:
                pending.fail(TermEnded(certain=not pending.records))
        self._pending = committed

    async def _write(self, decided: Sequence[PendingDecision[Any]]) -> bool:
        """Append the decisions, one batch each, without waiting for their commit: several writes may be in flight.

        Returns False if nothing was written: this node is no longer the leader (`end` was called while the requests
        were decided, or will be), or the disk is full.
        """
        written = False
        try:
            written = not self._ended and self._append_batches(decided)
        except KafkaStorageError as error:
            if not self._may_refuse():
                raise
            await self._take_back()
            self._refusals.refused(error, len(decided))
            _fail(decided, error)
        finally:
            if not written:
                _fail(decided, TermEnded(certain=True))
        return written

    async def _take_back(self) -> None:
        """Undo the decisions that could not be appended: the image is again that of the log."""
        await self._wait_for_pending(0)
        self._decided = copy_image(self._image)

    def _append_batches(self, decided: Sequence[PendingDecision[Any]]) -> bool:
        data = b"".join([pending.batch for pending in decided])
        for pending in decided:
            pending.batch = b""
        if data:
            try:
                end_offset = self._append(data)
            except NotLeader:
                return False
            self._refusals.over()
            # Raft may have appended records of the voters since the last decision.
            self._end_offset = end_offset - sum(len(pending.records) for pending in decided)
        for pending in decided:
            if pending.records:
                self._own_records[self._end_offset] = pending.records
            self._end_offset += len(pending.records)
            pending.end_offset = self._end_offset
        return True


def _fail(decided: Sequence[PendingDecision[Any]], error: Exception) -> None:
    """Raise `error` for those that have no result yet."""
    for pending in decided:
        if not pending.done.is_set():
            pending.fail(error)


class _Refusals:
    """Logs that changes are refused: when that begins, then once a minute, and when it is over."""

    def __init__(self) -> None:
        self._count = 0
        self._logged_at: float | None = None

    def refused(self, error: KafkaStorageError, requests: int) -> None:
        """Note that requests were refused."""
        now = trio.current_time()
        self._count += requests
        if self._logged_at is None or now >= self._logged_at + REFUSALS_LOGGED_S:
            log.error("metadata change refused", error=str(error), requests=self._count)
            self._count, self._logged_at = 0, now

    def over(self) -> None:
        """Note that a change was written, so that changes are accepted again."""
        if self._logged_at is not None:
            log.info("metadata changes accepted again", refused=self._count)
            self._count, self._logged_at = 0, None
