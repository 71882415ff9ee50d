"""`Listener` of a blocking consumer, whose callbacks run on the thread of the application, in its calls."""

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
                self._thread.soon(done.set)

        todo.get().put(call)
        await done.wait()
        if failures:
            raise failures[0]
