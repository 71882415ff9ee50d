"""`Shard`: the coordinator of one partition while this node leads the partition, and its pending replies."""

from __future__ import annotations

from enum import Enum
from typing import Any, Generic, TypeVar

import trio

from minikafka.broker.coordinator.timer import Timer
from minikafka.protocol.errors import KafkaError, NotCoordinatorError, again
from minikafka.protocol.names import TopicPartition
from minikafka.storage.waits import in_task

S = TypeVar("S")


class PendingReply:
    """The pending reply to one request. It is the ticket that decisions name to reply to the request.

    Attributes:
        reply: The reply; valid once `has_reply` is set and the record at `offset` is committed.
        has_reply: False before the reply, and after an error.
        offset: The offset of the last record that the reply depends on; -1 before the reply.
    """

    __slots__ = ("_error", "_event", "has_reply", "offset", "reply")

    def __init__(self) -> None:
        self.has_reply = False
        self.reply: Any = None
        self.offset = -1
        self._error: KafkaError | None = None
        self._event: trio.Event | None = None

    def resolve(self, reply: Any, offset: int) -> None:
        """Set the reply, which is valid once the record at `offset` is committed.

        Only the first call of `resolve` or `fail` has an effect.
        """
        if not self.has_reply and self._error is None:
            self.has_reply, self.reply, self.offset = True, reply, offset
            self._wake()

    def fail(self, error: KafkaError) -> None:
        """Set an error in place of the reply. Only the first call of `resolve` or `fail` has an effect."""
        if not self.has_reply and self._error is None:
            self._error = error
            self._wake()

    def _wake(self) -> None:
        if self._event is not None:
            self._event.set()

    async def replied(self) -> None:
        """Return once there is a reply, without a checkpoint if it is there already.

        After cancellation the reply is discarded.

        Raises:
            KafkaError: As passed to `fail`.
        """
        if not self.has_reply and self._error is None:
            await in_task()
        if not self.has_reply and self._error is None:
            self._event = trio.Event()
            await self._event.wait()
        if self._error is not None:
            raise again(self._error)


class Status(Enum):
    """The state of a shard."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class Shard(Generic[S]):
    """The coordinator of one partition, while this node leads the partition in one leader epoch.

    Attributes:
        last_offset: Offset of the last applied record; -1 if there is none.
        committed_offset: The last offset known to be committed.
        scope: Cancelled to end all tasks of the shard.
        loaded: Set once the log has been replayed.
        tasks: Runs the tasks that `CoordinatorRuntime.start_soon` starts; None while loading.
        timer: Fires the deadlines of the state; None while loading.
        reload_delay_s: The delay before loading, in seconds; above 0 if a shard of this partition has just failed.
        active_since_s: The time when the shard was loaded, in seconds of trio's clock.
    """

    def __init__(self, partition: TopicPartition, leader_epoch: int, state: S) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.state = state
        self.status = Status.LOADING
        self.last_offset = -1
        self.committed_offset = -1
        self.scope = trio.CancelScope()
        self.loaded = trio.Event()
        self.tasks: trio.Nursery | None = None
        self.timer: Timer | None = None
        self.reload_delay_s = 0.0
        self.active_since_s = 0.0
        self._waiting: dict[PendingReply, None] = {}
        self._is_closed = False

    async def replied(self, pending: PendingReply) -> None:
        """Wait for a reply of this shard's state machine.

        Raises:
            NotCoordinatorError: Leadership ended first, or the shard is loaded again.
            KafkaError: The append failed.
        """
        if self._is_closed:
            pending.fail(self._resigned())
        self._waiting[pending] = None
        try:
            await pending.replied()
        finally:
            del self._waiting[pending]

    def close(self) -> None:
        """End the shard: cancel its tasks, and fail all waiting requests with NOT_COORDINATOR."""
        self._is_closed = True
        self.scope.cancel()
        for waiting in self._waiting:
            waiting.fail(self._resigned())

    def _resigned(self) -> NotCoordinatorError:
        return NotCoordinatorError(f"{self.partition} is now led by another node, or loaded again")
