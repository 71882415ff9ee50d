"""Programs that use clients and end: `python -m support.lives HOST:PORT WHERE WHAT NAME`, and `LIVES_TIMEOUT_MS`.

Each has a producer, a transactional producer, a consumer in a group and an admin client, and opens them before it
prints `ready`. After a line on its standard input it uses them (WHAT: "idle" or "in flight"), and ends. It prints what
came of each: `KIND OUTCOME`, "ok" or the class of an error. WHERE says in what they live, and how the program ends.

The environment gives their time-outs: short ones where the broker goes away, so that the program ends soon.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import anyio

from minikafka import client
from minikafka.client import blocking

KINDS = ("producer", "transactional", "consumer", "admin")
RECORDS = 10
_TIMEOUT_MS = int(os.environ.get("LIVES_TIMEOUT_MS", "60000"))
_TIMEOUTS = {
    "request_timeout_ms": _TIMEOUT_MS * 2 // 3,
    "default_api_timeout_ms": _TIMEOUT_MS,
    "socket_connection_setup_timeout_ms": 10_000,
}
_SENDING = {"max_block_ms": _TIMEOUT_MS, "delivery_timeout_ms": _TIMEOUT_MS, "linger_ms": 0}


def make(kind: str, module: Any, address: str, name: str) -> Any:
    """A client of `minikafka.client` or `minikafka.client.blocking`."""
    options: dict[str, Any] = {"bootstrap_servers": address, **_TIMEOUTS}
    if kind == "admin":
        return module.Admin(**options)
    if kind == "consumer":
        return module.Consumer("lives", group_id=f"{name}-{os.getpid()}", auto_offset_reset="earliest", **options)
    if kind == "transactional":
        options["transactional_id"] = f"{name}-{os.getpid()}"
    return module.Producer(**options, **_SENDING)


def say(kind: str, outcome: str) -> None:
    sys.stdout.write(f"{kind} {outcome}\n")  # at once: threads write, too
    sys.stdout.flush()


def go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


# -- async ---------------------------------------------------------------------------------------------------------


async def use(kind: str, one: Any, value: bytes) -> None:
    if kind == "admin":
        await one.list_topics()
    elif kind == "consumer":
        await one.poll(300)
        await one.commit()
    elif kind == "transactional":
        async with one.transaction():
            for _ in range(RECORDS):
                await one.send("lives", value)
    else:
        for _ in range(RECORDS):
            await one.send("lives", value)


async def live(address: str, what: str, name: str) -> None:
    opened, may_go = [anyio.Event() for _ in KINDS], anyio.Event()

    async def one_life(kind: str, is_open: anyio.Event) -> None:
        try:
            async with make(kind, client, address, name) as one:
                if hasattr(one, "partitions_for"):
                    await one.partitions_for("lives")
                is_open.set()
                await may_go.wait()
                if what != "idle":
                    await use(kind, one, name.encode())
        except Exception as error:  # noqa: BLE001 (it is the outcome)
            say(kind, type(error).__name__)
        else:
            say(kind, "ok")
        finally:
            is_open.set()

    async with anyio.create_task_group() as tasks:
        for kind, is_open in zip(KINDS, opened, strict=True):
            tasks.start_soon(one_life, kind, is_open)
        for is_open in opened:
            await is_open.wait()
        await anyio.to_thread.run_sync(go)
        may_go.set()


# -- blocking ------------------------------------------------------------------------------------------------------


def use_blocking(kind: str, one: Any, value: bytes) -> None:
    if kind == "admin":
        one.list_topics()
    elif kind == "consumer":
        one.poll(300)
        one.commit()
    elif kind == "transactional":
        with one.transaction():
            for _ in range(RECORDS):
                one.send("lives", value)
    else:
        for _ in range(RECORDS):
            one.send("lives", value)


def open_all(address: str, name: str) -> dict[str, Any]:
    """All clients, entered."""
    opened = {kind: make(kind, blocking, address, name).__enter__() for kind in KINDS}
    for one in opened.values():
        if hasattr(one, "partitions_for"):
            one.partitions_for("lives")
    return opened


def finish(opened: dict[str, Any], what: str, name: str, kind: str) -> None:
    """Use a client and leave it."""
    try:
        with ExitStack() as stack:
            stack.push(opened[kind].__exit__)
            if what != "idle":
                use_blocking(kind, opened[kind], name.encode())
    except Exception as error:  # noqa: BLE001 (it is the outcome)
        say(kind, type(error).__name__)
    else:
        say(kind, "ok")


def one_after_the_other(address: str, what: str, name: str) -> None:
    opened = open_all(address, name)
    go()
    for kind in KINDS:
        finish(opened, what, name, kind)


def in_threads(address: str, what: str, name: str) -> None:
    """A pool of threads; another thread than the one that opened a client leaves it."""
    opened = open_all(address, name)
    go()
    with ThreadPoolExecutor(len(KINDS)) as pool:
        list(pool.map(partial(finish, opened, what, name), KINDS))


def left_by_another(address: str, what: str, name: str) -> None:
    """A thread waits in a call of each client, and the main thread leaves the client."""
    opened = open_all(address, name)
    threads = [threading.Thread(target=waits, args=(opened[kind], kind)) for kind in KINDS]
    for one in threads:
        one.start()
    go()
    for kind in KINDS:
        opened[kind].__exit__(RuntimeError, RuntimeError("left"), None)
    for one in threads:
        one.join()


def waits(one: Any, kind: str) -> None:
    try:
        one._wait(anyio.sleep_forever)
    except RuntimeError as error:
        say(kind, "ok" if "was closed by another thread" in str(error) else str(error))


def forked(address: str, what: str, name: str) -> None:
    """A child process finds clients of its parent, which says that it can use none of them; the parent goes on."""
    opened = open_all(address, name)
    child = os.fork()
    if not child:
        for kind in KINDS:
            for call in (partial(use_blocking, kind, opened[kind], b""), opened[kind].metrics):
                try:
                    call()
                except RuntimeError as error:
                    say(f"child-{kind}", "ok" if "before the fork" in str(error) else str(error))
            opened[kind].__exit__(None, None, None)
        sys.exit(0)
    os.waitpid(child, 0)
    go()
    for kind in KINDS:
        finish(opened, what, name, kind)


def spawned(address: str, what: str, name: str) -> None:
    """A child process with clients of its own, beside those of its parent."""
    opened = open_all(address, name)
    child = multiprocessing.get_context("spawn").Process(target=child_of_spawned, args=(address, name))
    child.start()
    child.join()
    say("child", "ok" if child.exitcode == 0 else f"exit code {child.exitcode}")
    go()
    for kind in KINDS:
        finish(opened, what, name, kind)


def child_of_spawned(address: str, name: str) -> None:
    for kind, one in open_all(address, name).items():
        with ExitStack() as stack:
            stack.push(one.__exit__)
            use_blocking(kind, one, b"of a child")


class Interrupted(Exception):
    """Raised by the signal handler."""


def interrupted(address: str, what: str, name: str, error: type[BaseException] = KeyboardInterrupt) -> None:
    """A signal interrupts a call that waits; the program catches that in the block, and goes on."""
    opened = open_all(address, name)
    signal.signal(signal.SIGALRM, partial(interrupt, error))
    go()
    for kind, one in opened.items():
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            if kind == "consumer":
                for _ in one:
                    pass
            one._wait(anyio.sleep_forever)
        except error:
            pass
        finish(opened, what, name, kind)


def interrupt(error: type[BaseException], number: int, frame: Any) -> None:
    raise error


def never_closed(address: str, what: str, name: str) -> None:
    opened = open_all(address, name)
    go()
    for kind, one in opened.items():
        try:
            if what != "idle":
                use_blocking(kind, one, name.encode())
        except client.KafkaError as error:
            say(kind, type(error).__name__)
        else:
            say(kind, "ok")


def in_asyncio(address: str, what: str, name: str) -> None:
    asyncio.run(live(address, what, name))


def in_trio(address: str, what: str, name: str) -> None:
    anyio.run(live, address, what, name, backend="trio")


def in_uvloop(address: str, what: str, name: str) -> None:
    import uvloop

    uvloop.run(live(address, what, name))


WHERE: dict[str, Callable[[str, str, str], None]] = {
    "asyncio": in_asyncio,
    "trio": in_trio,
    "uvloop": in_uvloop,
    "blocking": one_after_the_other,
    "thread pool": in_threads,
    "left by another thread": left_by_another,
    "fork": forked,
    "spawn": spawned,
    "SIGINT": interrupted,
    "a handler that raises": partial(interrupted, error=Interrupted),
    "never closed": never_closed,
}

if __name__ == "__main__":
    WHERE[sys.argv[2]](sys.argv[1], sys.argv[3], sys.argv[4])
