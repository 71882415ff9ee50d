"""`Listener` of a blocking consumer: its callbacks run on the application's thread, during calls of the consumer."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from functools import partial

import anyio

from minikafka.client.blocking.loop_thread import LoopThread, todo
from minikafka.client.consumer import listener as async_listener
from minikafka.client.user_code import ENDS_PROGRAM, NoException
from minikafka.protocol.names import TopicPartition


class Listener:
    """Callbacks for rebalances; override those you need.

    Like `minikafka.client.Listener`, but with plain methods, which run on the application's thread while it calls the
    consumer. They may use the consumer, as in `consumer.commit()`, but may not request records.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when these partitions were assigned, before they are consumed; seeking is possible."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called before these partitions are revoked; committing is still possible."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called after these partitions were lost: other members may own them already; commits would be rejected."""


EitherListener = Listener | async_listener.Listener
"""The listeners that a blocking consumer accepts. Async methods run in its event loop, and may not use the consumer."""


class OnApplicationThread(async_listener.Listener):
    """An async listener that calls the methods of a blocking `Listener` on the application's thread."""

    def __init__(self, listener: Listener, thread: LoopThread) -> None:
        self._listener = listener
        self._thread = thread

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(partial(self._listener.on_partitions_assigned, partitions))

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(partial(self._listener.on_partitions_revoked, partitions))

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._call(partial(self._listener.on_partitions_lost, partitions))

    async def _call(self, callback: Callable[[], None]) -> None:
        """Run the callback on the application's thread, and raise its error; cancellation does not end the callback.

        A BaseException that is no Exception is raised as NoException.
        """
        done, failures, context = anyio.Event(), list[Exception](), contextvars.copy_context()

        def call() -> None:
            try:
                context.run(callback)
            except ENDS_PROGRAM:
                failures.append(RuntimeError("a callback of a Listener was interrupted"))
                raise
            except Exception as error:  # noqa: BLE001 (the application's error; its call of the consumer raises it)
                failures.append(error)
            except BaseException as error:  # noqa: BLE001 (likewise)
                failures.append(NoException(error))
            finally:
                self._thread.soon(done.set)

        todo.get().put(call)
        await done.wait()
        if failures:
            raise failures[0]
