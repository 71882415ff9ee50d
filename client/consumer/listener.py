"""`Listener`: the public callback class for rebalances."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from minikafka.client.argument_kinds import shown
from minikafka.protocol.names import TopicPartition


class Listener:
    """Callbacks for rebalances; override those you need.

    As in the JVM client, callbacks are called when the application requests records (`poll`, iteration), unsubscribes
    or leaves the block, never concurrently with the application's code. All records returned before count as processed
    by then, except when the block is left by an exception or by cancellation. `Consumer.commit()` in a callback always
    commits the processed records only. The rebalance, and thereby the other members, wait for the callback. The timeout
    of `poll` does not limit the callback. If a callback is cancelled, the next request calls it again. If a callback
    raises, the request raises that error, and the callback counts as called. A callback must not request records.
    """

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Called when these partitions were assigned, before they are consumed; seeking is possible."""

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Called before these partitions are revoked; committing is still possible."""

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """Called after these partitions were lost: other members may own them already; commits would be rejected."""


def check_listener(listener: object, *, is_async: bool) -> None:
    """Raise TypeError unless the methods of a listener are all coroutine functions (`is_async`), or all plain ones."""
    for name in (name for name in vars(Listener) if name.startswith("on_")):
        if inspect.iscoroutinefunction(getattr(listener, name)) is not is_async:
            form = "a coroutine function (async def)" if is_async else "a plain method (def), not a coroutine function"
            raise TypeError(f"subscribe(listener={shown(listener)}): must have {form} as {name}")
