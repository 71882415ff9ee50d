"""Who waits for a controller's decision: a queue before the one task that decides, and many at a time taken from it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import trio

from minikafka.controller.decisions.decision import RECORDS_MAX, Decision
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import Record

__all__ = ["QUEUE_MAX", "Asked", "Decide", "Inbox"]

QUEUE_MAX = 1000
Reply = TypeVar("Reply")
Decide = Callable[[Image], Decision[Reply]]


@dataclass(slots=True, eq=False)
class Asked(Generic[Reply]):
    """Something to be decided, and what became of it.

    Attributes:
        done: there is an error, or a decision that is committed and applied.
        end_offset: of the metadata log, before which everything lies that the decision rests on.
    """

    decide: Decide[Reply]
    done: trio.Event = field(default_factory=trio.Event)
    decision: Decision[Reply] | None = None
    error: Exception | None = None
    end_offset: int = -1

    @property
    def decided(self) -> Decision[Reply]:
        """The decision, which has been made."""
        assert self.decision is not None, "it was decided, or failed"
        return self.decision

    @property
    def records(self) -> Sequence[Record]:
        """Of the decision, which has been made."""
        return self.decided.records

    def fail(self, error: Exception) -> None:
        """Have whoever waits see this."""
        self.error = error
        self.done.set()


class Inbox:
    """See above.

    Args:
        closed: makes what they see who come too late.
    """

    def __init__(self, closed: Callable[[], Exception]) -> None:
        self._closed = closed
        self._send, self._receive = trio.open_memory_channel[Asked[Any]](QUEUE_MAX)

    async def ask(self, decide: Decide[Reply]) -> Asked[Reply]:
        """Wait until it is done. Cancelled, it may be carried out or not. A full queue makes this wait.

        Raises what `decide` raised, what it was made to fail with, or what `closed` makes.
        """
        asked = Asked(decide)
        try:
            await self._send.send(asked)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise self._closed() from None
        await asked.done.wait()
        if asked.error is not None:
            raise asked.error
        return asked

    async def first(self) -> Asked[Any]:
        """The next in the queue, as soon as there is one. Raises trio.ClosedResourceError."""
        return await self._receive.receive()

    def decide(self, first: Asked[Any], image: Image) -> list[Asked[Any]]:
        """Decide it and those behind it, as far as fits into one write, each against what those before will have done.

        What one raises is for who asked to see; it is not among those returned.
        """
        decided: list[Asked[Any]] = []
        records_count = 0
        asked: Asked[Any] | None = first
        while asked is not None:
            try:
                asked.decision = asked.decide(image)
            except Exception as error:  # noqa: BLE001 (nothing has changed; whoever asked must know)
                asked.fail(error)
            else:
                for record in asked.records:
                    image.apply(record)
                decided.append(asked)
                records_count += len(asked.records)
            asked = self._waiting() if records_count < RECORDS_MAX else None
        return decided

    def close(self) -> list[Asked[Any]]:
        """Take no more; those who still wait to be decided."""
        left: list[Asked[Any]] = []
        while (asked := self._waiting()) is not None:
            left.append(asked)
        self._receive.close()
        return left

    def _waiting(self) -> Asked[Any] | None:
        try:
            return self._receive.receive_nowait()
        except trio.WouldBlock:
            return None
