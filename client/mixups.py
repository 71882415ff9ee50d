"""What was written for the other kind of client, async or blocking, or for other libraries: errors say what to write.

The methods are hidden from type checkers, which find such mistakes by themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

_CLOSING = ("close", "aclose", "stop", "start", "open", "shutdown")
"""Methods with which other libraries open and close clients."""


def _missing(client: object, name: str, block: str, stack: str) -> AttributeError:
    kind = type(client).__name__
    if name not in _CLOSING:
        return AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=client)
    return AttributeError(
        f"{kind} has no {name}(): `{block} {kind}(…) as …:` opens it, and closes it at the end of the block; a"
        f" contextlib.{stack} ends the block elsewhere",
        name=name,
        obj=client,
    )


class MixedWithBlocking:
    """An async client, used like a blocking one."""

    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            name = type(self).__name__
            raise TypeError(
                f"this {name} is async: use it inside `async with {name}(…) as …:`, or use"
                f" minikafka.client.blocking.{name}"
            )

        def __exit__(self, *exception: object) -> None:
            """Python looks for it before it calls `__enter__`."""

        def __getattr__(self, name: str) -> Any:
            raise _missing(self, name, "async with", "AsyncExitStack")


class MixedWithAsync:
    """A blocking client, used like an async one."""

    if not TYPE_CHECKING:

        def __aenter__(self) -> NoReturn:
            name = type(self).__name__
            raise TypeError(
                f"this {name} is blocking: use it inside `with {name}(…) as …:`, or use minikafka.client.{name}"
            )

        def __aexit__(self, *exception: object) -> None:
            """Python looks for it before it calls `__aenter__`."""

        def __getattr__(self, name: str) -> Any:
            raise _missing(self, name, "with", "ExitStack")


class IteratedWithoutAsync:
    """An async consumer in a plain `for`."""

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(
                "this Consumer is async: iterate over it with `async for`, or use minikafka.client.blocking.Consumer"
            )


class IteratedWithAsync:
    """A blocking consumer in an `async for`."""

    if not TYPE_CHECKING:

        def __aiter__(self) -> NoReturn:
            raise TypeError("this Consumer is blocking: iterate over it with `for`, or use minikafka.client.Consumer")


class Awaited:
    """The delivery of a blocking producer, after `await`."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __await__(self) -> NoReturn:
            raise TypeError(
                "this Producer is blocking: wait for a delivery with `.result()`, or use minikafka.client.Producer"
            )
