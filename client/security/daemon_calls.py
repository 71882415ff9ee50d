"""Calls a function of the application that may block, or never return, in a thread that no program waits for.

Python waits at its end for the worker threads that anyio uses under asyncio. Threads of this file are daemons: after
Ctrl-C a program ends even if such a function does not return. Trio: wakes the loop from a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
import sniffio
from anyio.to_thread import current_default_thread_limiter

T = TypeVar("T")
Soon = Callable[[Callable[[], object]], Any]


async def daemon_call(function: Callable[[], T]) -> T:
    """Call a function that does not raise in a daemon thread, with the context of the caller; return its result.

    The threads count for the event loop's limit of worker threads, which is 40: further calls wait. After cancellation
    the function goes on, its thread counts until it returns, and the result is dropped.
    """
    limiter, borrower, returned = current_default_thread_limiter(), object(), anyio.Event()
    results: list[T] = []
    soon, context = _soon(), contextvars.copy_context()
    context.run(sniffio.current_async_library_cvar.set, None)

    def end() -> None:
        limiter.release_on_behalf_of(borrower)
        returned.set()

    def run() -> None:
        results.append(context.run(function))
        with suppress(RuntimeError):  # The event loop has ended.
            soon(end)

    await limiter.acquire_on_behalf_of(borrower)
    try:
        threading.Thread(target=run, name="minikafka daemon call", daemon=True).start()
    except BaseException:
        limiter.release_on_behalf_of(borrower)
        raise
    await returned.wait()
    return results[0]


def _soon() -> Soon:
    """Schedules a function in the running event loop, from any thread. Raises RuntimeError if the loop has ended."""
    if sniffio.current_async_library() == "trio":
        import trio

        return trio.lowlevel.current_trio_token().run_sync_soon
    return asyncio.get_running_loop().call_soon_threadsafe
