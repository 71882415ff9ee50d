"""One node's time as the active controller: a queue, an image that runs ahead of what is committed, who waits for what.

A decision is made against what all earlier decisions of the term will have done, committed or not. The image that knows
that is the term's own, and goes with it. Whoever asked gets the reply once the decision is committed and this node has
applied it; or, when the term ends before that, the news that nobody knows whether it will be.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import trio

from minikafka.controller.active.request_queue import QUEUE_MAX, Asked, Decide, Inbox
from minikafka.controller.decisions.decision import Decision
from minikafka.controller.metadata.image import Image, Topic
from minikafka.controller.metadata.records import Record
from minikafka.controller.quorum.raft_driver import NotLeader
from minikafka.controller.standalone_log import encode_decision
from minikafka.protocol.errors import NotControllerError

__all__ = ["Term", "TermEnded", "copied"]

Reply = TypeVar("Reply")


class TermEnded(NotControllerError):
    """This node is not the active controller, or ceased to be while somebody waited.

    Attributes:
        certain: whether what was asked has certainly not been carried out; else it may be, or not.
    """

    def __init__(self, *, certain: bool) -> None:
        super().__init__("This is not the correct controller for this cluster.")
        self.certain = certain


@dataclass(slots=True, frozen=True)
class Outcome(Generic[Reply]):
    """A decision that is committed and applied: everything that it rests on lies before `end_offset`."""

    decision: Decision[Reply]
    end_offset: int

    @property
    def reply(self) -> Reply:
        return self.decision.reply


class Term:
    """See above.

    Args:
        epoch: of the quorum.
        image: complete; it is copied.
        end_offset: of the log.
        append: puts batches into the log and returns where they end; raises NotLeader.
        now_ms: the wall clock.
    """

    def __init__(
        self, epoch: int, image: Image, end_offset: int, append: Callable[[bytes], int], now_ms: Callable[[], int]
    ) -> None:
        self.epoch = epoch
        self._decided = copied(image)
        self._end_offset = self._applied = end_offset
        self._append = append
        self._now_ms = now_ms
        self._pending: deque[Asked[Any]] = deque()
        self._room = trio.Event()
        self._own: dict[int, Sequence[Record]] = {}
        self._ended = False
        self._inbox = Inbox(lambda: TermEnded(certain=True))

    async def run(self) -> None:
        """Decide until the end of the term."""
        while not self._ended:
            try:
                first = await self._inbox.first()
            except trio.ClosedResourceError:
                return
            if self._ended:  # since it was handed over, before this task had its turn
                first.fail(TermEnded(certain=True))
                return
            decided = self._inbox.decide(first, self._decided)
            if self._write(decided):
                self._pending += decided
                self.applied(self._applied)  # What wrote nothing, behind what is applied, has nothing to wait for.
            while len(self._pending) >= QUEUE_MAX:
                self._room = trio.Event()
                await self._room.wait()

    async def submit(self, decide: Decide[Reply]) -> Outcome[Reply]:
        """A decision, once it is committed and applied. Cancelled, it may be carried out or not.

        Raises:
            KafkaError: what `decide` raised.
            TermEnded: see there.
        """
        asked = await self._inbox.ask(decide)
        return Outcome(asked.decided, asked.end_offset)

    def records_at(self, offset: int) -> Sequence[Record] | None:
        """What this term has written at an offset, so that it need not be read again; None if it did not."""
        return self._own.pop(offset, None)

    def applied(self, offset: int) -> None:
        """Everything before is committed, and applied to this node's image."""
        self._applied = offset
        while self._pending and self._pending[0].end_offset <= offset:
            self._pending.popleft().done.set()
        self._room.set()

    def end(self, high_watermark: int) -> None:
        """Another node leads: whoever waits for what is not committed will not learn here what becomes of it."""
        if self._ended:
            return
        self._ended = True
        self._own.clear()
        for waiting in self._inbox.close():
            waiting.fail(TermEnded(certain=True))
        committed = deque(asked for asked in self._pending if asked.end_offset <= high_watermark)
        for asked in self._pending:
            if asked.end_offset > high_watermark:
                asked.fail(TermEnded(certain=not asked.records))
        self._pending = committed

    def _write(self, decided: Sequence[Asked[Any]]) -> bool:
        """Append the decisions, a batch each. Nothing is waited for: several writes may be on their way.

        Where this node leads no more, the end of the term is about to be told, and nothing is written.
        """
        now = self._now_ms()
        data = b"".join(encode_decision(asked.records, now) for asked in decided if asked.records)
        for asked in decided:
            if asked.records:
                self._own[self._end_offset] = asked.records
            self._end_offset += len(asked.records)
            asked.end_offset = self._end_offset
        if data:
            try:
                end_offset = self._append(data)
            except NotLeader:
                for asked in decided:
                    asked.fail(TermEnded(certain=True))
                return False
            assert end_offset == self._end_offset, "nobody else writes during a term"
        return True


def copied(image: Image) -> Image:
    """Another image of the same."""
    topics = {name: Topic(topic.name, topic.id, list(topic.partitions)) for name, topic in image.topics.items()}
    return replace(
        image,
        topics=topics,
        topics_by_id={topic.id: topic for topic in topics.values()},
        brokers=dict(image.brokers),
        configs={key: dict(values) for key, values in image.configs.items()},
        features=dict(image.features),
        quotas={entity: dict(values) for entity, values in image.quotas.items()},
        scram=dict(image.scram),
        colliding={name: list(names) for name, names in image.colliding.items()},
    )
