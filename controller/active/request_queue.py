"""The queue of requests that wait for a controller's decision; many are decided at a time. Trio: senders wait."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import structlog
import trio

from minikafka.controller.decisions.decision import RECORDS_MAX, Decision
from minikafka.controller.failures import FAILURES
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.metadata_log import encoding_decision
from minikafka.controller.metadata.records import Record
from minikafka.controller.metadata.steps import ELEMENTS_IN_A_STEP, RECORDS_IN_A_STEP, applying, record_weight
from minikafka.protocol.errors import KafkaError, UnknownServerError
from minikafka.storage.waits import in_task

__all__ = ["BATCH_SIZE_BYTES_MAX", "QUEUE_MAX", "Decide", "PendingDecision", "RequestQueue"]

log = structlog.get_logger("minikafka.controller")

QUEUE_MAX = 1000
BATCH_SIZE_BYTES_MAX = 8 << 20
"""The most bytes of the records of a request. Those of the controller's own decisions, which may have more records than
a request, are not limited. Source: `KafkaRaftClient.MAX_BATCH_SIZE_BYTES`."""
Reply = TypeVar("Reply")
Decide = Callable[[Image], Decision[Reply] | Generator[None, None, Decision[Reply]]]
"""Makes a decision, at once or in steps."""


@dataclass(slots=True, eq=False)
class PendingDecision(Generic[Reply]):
    """A queued request and, later, its decision or error.

    Attributes:
        elements: the number of elements that the request names (partitions, resources), which a decision in steps takes
            time for; `ELEMENTS_IN_A_STEP` if the decision may look at all partitions.
        done: set with an error, or with a decision that is committed and applied.
        batch: the encoded records; b"" if there are none, or once they are appended.
        end_offset: every record that the decision depends on is before this offset of the metadata log.
    """

    decide: Decide[Reply]
    elements: int = ELEMENTS_IN_A_STEP
    done: trio.Event = field(default_factory=trio.Event)
    decision: Decision[Reply] | None = None
    error: Exception | None = None
    batch: bytes = b""
    end_offset: int = -1

    @property
    def decided(self) -> Decision[Reply]:
        """The decision, which must have been made."""
        assert self.decision is not None, "it was decided, or failed"
        return self.decision

    @property
    def records(self) -> Sequence[Record]:
        """The records of the decision, which must have been made."""
        return self.decided.records

    def fail(self, error: Exception) -> None:
        """Raise `error` in the task that waits for the decision."""
        self.error = error
        self.done.set()


class RequestQueue:
    """A bounded queue in front of the task that decides.

    Args:
        closed: creates the error for requests that arrive after `close`.
    """

    def __init__(self, closed: Callable[[], Exception]) -> None:
        self._closed = closed
        self._send, self._receive = trio.open_memory_channel[PendingDecision[Any]](QUEUE_MAX)

    async def submit(
        self, decide: Decide[Reply], elements: int = ELEMENTS_IN_A_STEP
    ) -> PendingDecision[Reply]:
        """Queue a request, first waiting while the queue is full, and wait until the request is done.

        After cancellation the decision may be carried out or not. Raises the error of `decide`, the error given to
        `fail`, or the error that `closed` creates.
        """
        await in_task()
        pending = PendingDecision(decide, elements)
        try:
            await self._send.send(pending)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._closed() from None
        await pending.done.wait()
        if pending.error is not None:
            error, pending.error = pending.error, None
            try:
                raise error
            finally:
                del error  # This frame is in the error's traceback: a reference would be a cycle and keep the request.
        return pending

    async def next(self) -> PendingDecision[Any]:
        """Wait for the next request. Raises trio.ClosedResourceError."""
        return await self._receive.receive()

    def deciding(
        self, first: PendingDecision[Any], image: Image, now_ms: int
    ) -> Generator[None, None, list[PendingDecision[Any]]]:
        """Decide `first` and the requests queued behind it, as many as fit into one write, in steps. Each request is
        decided against the effects of the earlier requests. Nobody else may change the image meanwhile.

        Returns the requests that were decided, with their batches. A request whose decision raises fails, and so does
        one whose records cannot be encoded: with UNKNOWN_SERVER_ERROR if the exception is a bug of minikafka. It is not
        returned, and has changed nothing. If the generator is closed early, all its requests fail. It ends after
        `QUEUE_MAX` requests, even if more arrive between the steps, so that no request waits for ever.
        """
        decided: list[PendingDecision[Any]] = []
        requests_count = records_count = size_bytes = yielded_at = work = 0
        pending: PendingDecision[Any] | None = first
        try:
            while pending is not None:
                try:
                    made = pending.decide(image)
                    if not isinstance(made, Decision):
                        work += pending.elements
                        made = yield from made
                    size_bytes_max = BATCH_SIZE_BYTES_MAX if len(made.records) <= RECORDS_MAX else None
                    pending.batch = yield from encoding_decision(made.records, now_ms, size_bytes_max)
                    pending.decision = made
                except KafkaError as error:  # the image has not changed
                    pending.fail(error)
                except Exception:
                    log.exception("decision failed", queued=requests_count)
                    FAILURES["decision"] += 1
                    pending.fail(UnknownServerError())
                else:
                    yield from applying(image, pending.records)
                    decided.append(pending)
                    records_count += len(pending.records)
                    size_bytes += len(pending.batch)
                    work += record_weight(len(pending.batch), len(pending.records)) // 2  # of the encoding
                if records_count - yielded_at >= RECORDS_IN_A_STEP or work >= ELEMENTS_IN_A_STEP:
                    yielded_at, work = records_count, 0
                    yield
                requests_count += 1
                is_full = records_count >= RECORDS_MAX or size_bytes >= BATCH_SIZE_BYTES_MAX
                pending = self._queued() if not is_full and requests_count < QUEUE_MAX else None
        except GeneratorExit:
            for abandoned in [*decided, pending]:
                if abandoned is not None:
                    abandoned.fail(self._closed())
            raise
        return decided

    def close(self) -> list[PendingDecision[Any]]:
        """Accept no more requests; returns those that are not decided yet."""
        left: list[PendingDecision[Any]] = []
        while (pending := self._queued()) is not None:
            left.append(pending)
        self._receive.close()
        return left

    def _queued(self) -> PendingDecision[Any] | None:
        try:
            return self._receive.receive_nowait()
        except (trio.WouldBlock, trio.ClosedResourceError):
            return None
