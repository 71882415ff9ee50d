"""`Listener`: the public callback class for rebalances."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

from minikafka.client.argument_kinds import shown
from minikafka.protocol.names import TopicPartition


class Listener:
    """Callbacks for rebalances; override those you need.

    As in the JVM client they are called where the application requests records (`poll`, iteration), unsubscribes or
    leaves the block, never beside its own code. All records returned before are processed by then, except when the
    block is left by an exception or by cancellation; `Consumer.commit()` in a callback commits what is processed, in
    every case. The rebalance, and with it the other members, waits for the callback. The timeout of `poll` does not
    limit it. If it is cancelled, the next request calls it again; if it raises, the request raises that, and the
    callback counts as called. It must not request records.
    """

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are consumed from now on; seeking is possible."""

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions are about to be revoked; committing is still possible."""

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """These partitions may belong to other members already; commits would be rejected."""


def check_listener(listener: object, *, is_async: bool) -> None:
    """Raise TypeError unless the methods of a listener are all coroutine functions, or none is."""
    for name in (name for name in vars(Listener) if name.startswith("on_")):
        if inspect.iscoroutinefunction(getattr(listener, name)) is not is_async:
            form = "a coroutine function (async def)" if is_async else "a plain method (def), not a coroutine function"
            raise TypeError(f"subscribe(listener={shown(listener)}): must have {form} as {name}")
