"""`ProcessLane`: runs functions in a worker process, which it starts with `worker_main.py`.

A request is a pickled (function, arguments), an answer is a pickled (result, exception). Each message follows its
length in 8 bytes. The process ends when its standard input is closed, also in the middle of a function. So after a
`kill -9` of the parent the process does not remain. It also ends when it cannot read a request, and at once if its code
is not that of its parent, as after an upgrade in place: what it would do with the parent's requests is unknown. Uses
trio to notice that a caller is cancelled.
"""

import os
import pickle
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import trio

from minikafka.protocol.errors import again
from minikafka.storage.disks.worker import WorkerLost, attempt

_LENGTH = struct.Struct(">Q")
_MODULE = "minikafka.storage.disks.worker_main"
ANSWER_S = 300.0
"""The longest time for an answer: on a disk that reads and writes 100 KB/s a step of 8 MiB takes 160."""
LATE_S = 2.0
"""The time, in seconds, for which a process may continue a function after its caller was cancelled."""
OTHER_CODE = 100
"""The exit status of a process that was started by other code than its own."""
Result = TypeVar("Result")


def _code() -> str:
    """A checksum of the installed code that a worker may run."""
    checksum, storage = 0, Path(__file__).parents[1]
    for path in sorted(path for package in (storage, storage.parent / "protocol") for path in package.rglob("*.py")):
        checksum = zlib.crc32(path.read_bytes(), checksum)
    return str(checksum)


CODE = _code()
"""The code that this process runs, which imports it at its start."""


class ProcessLane:
    """A `worker.Lane` to a process, which starts with the first call.

    Args:
        run: calls a blocking function in a thread; completes the call even if the caller is cancelled.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """Calls a function in the process, as `worker.Lane.run`.

        Raises WorkerLost if the process cannot be started, or has ended, also if it was killed, `ANSWER_S` after the
        call, or `LATE_S` after the caller was cancelled.
        """
        found: list[tuple[Any, Exception | None]] = []
        answered = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._kill_if_late, answered)
            await self._run(attempt, found, self._call, (function, args))
            answered.set()
        result, error = found.pop()
        if error is not None:
            raise again(error)
        return cast(Result, result)

    async def _kill_if_late(self, answered: trio.Event) -> None:
        try:
            with trio.move_on_after(ANSWER_S):
                await answered.wait()
            if self._process is not None and not answered.is_set():
                self._process.kill()
        except trio.Cancelled:
            with trio.move_on_after(LATE_S, shield=True):
                await answered.wait()
            if self._process is not None and not answered.is_set():
                self._process.kill()  # It may be stopped, or wait for a disk; the thread that waits for it must end.
            raise

    def _call(self, function: Callable[..., object], args: tuple[object, ...]) -> object:
        if self._process is None:
            try:
                self._process = _start()
            except OSError as cause:  # Not of a disk that has logs.
                raise WorkerLost(f"the process of a worker cannot be started: {cause}") from cause
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None, "it is a pipe"
        assert stdout is not None, "it is a pipe"
        try:
            send(stdin, (function, args))
            found = receive(stdout)
        except BrokenPipeError:
            found = None
        if found is None:
            raise WorkerLost(_why_ended(self._process.wait()))
        result, error = found
        if error is not None:
            raise again(error)
        return result

    def close(self) -> None:
        """Kills the process, if it has started."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):  # A request that was not sent to its end.
                        pipe.close()


def _start() -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-m", _MODULE, CODE],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
    )  # fmt: skip


def _why_ended(status: int) -> str:
    if status == OTHER_CODE:
        return "other code of minikafka is installed than this node runs: restart the node"
    return f"the process of a worker ended with {status}"


def send(pipe: IO[bytes], message: object) -> None:
    """Writes a message to a pipe."""
    data = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: IO[bytes]) -> Any:
    """Returns the next message of a pipe; None at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = pipe.read(length)
    return pickle.loads(data) if len(data) == length else None
