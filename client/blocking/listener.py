"""`Listener` of a blocking consumer, whose callbacks run on the thread of the application, in its calls."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from minikafka.client.blocking.loop_thread import LoopThread
from minikafka.client.consumer import listener as async_listener
from minikafka.client.user_code import ENDS_PROGRAM, NoException
from minikafka.protocol.names import TopicPartition

T = TypeVar("T")
_calls: contextvars.ContextVar[SimpleQueue[Callable[[], None] | None]] = contextvars.ContextVar("calls")
"""The calls that the application's thread makes while it waits for what is done in this context; None: it is done."""


class Listener:
    """Callbacks for rebalances; override those you need.

    As `minikafka.client.Listener`, but plain methods, which are called on the application's thread, in its call of the
    consumer. They may use the consumer, as in `consumer.commit()`, but not request records.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are consumed from now on; seeking is possible."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are about to be revoked; committing is still possible."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions may belong to other members already; commits would be rejected."""


EitherListener = Listener | async_listener.Listener
"""What a blocking consumer accepts: the methods of an async one run in its event loop, where they must not use it."""


class OnApplicationThread(async_listener.Listener):
    """The async listener that has the methods of a blocking one called on the application's thread."""

    def __init__(self, listener: Listener, portal: BlockingPortal) -> None:
        self._listener = listener
        self._portal = portal

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(partial(self._listener.on_partitions_assigned, partitions))

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(partial(self._listener.on_partitions_revoked, partitions))

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(partial(self._listener.on_partitions_lost, partitions))

    async def _call(self, callback: Callable[[], None]) -> None:
        """Raises what the callback raises, NoException for what is none. Cancellation does not end the callback."""
        done, failures, context = anyio.Event(), list[Exception](), contextvars.copy_context()

        def call() -> None:
            try:
                context.run(callback)
            except ENDS_PROGRAM:
                failures.append(RuntimeError("a callback of a Listener was interrupted"))
                raise
            except Exception as error:  # noqa: BLE001 (the application's; its call of the consumer raises it)
                failures.append(error)
            except BaseException as error:  # noqa: BLE001 (likewise)
                failures.append(NoException(error))
            finally:
                self._portal.start_task_soon(done.set)

        _calls.get().put(call)
        await done.wait()
        if failures:
            raise failures[0]


def wait_and_call(thread: LoopThread, function: Callable[[], Awaitable[T]]) -> T:
    """Run a coroutine function on the event loop's thread, and make the calls that it needs on this thread.

    Raises what either raises.
    """
    calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def run() -> T:
        _calls.set(calls)
        return await function()

    def make_calls(future: Future[T]) -> None:
        future.add_done_callback(lambda _: calls.put(None))
        while (call := calls.get()) is not None:
            call()

    result: T = thread.call(run, make_calls)
    return result
