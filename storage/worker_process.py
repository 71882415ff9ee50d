"""A worker in a process of its own: `ProcessLane` talks to it, `main` is what the process runs.

A request is a pickled (function, arguments), an answer a pickled (result, exception), each after its length in 8 bytes.
The process ends when its standard input is closed, also in the middle of a function: after a `kill -9` of its parent
nothing of it is left.
"""

import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any, TypeVar

from minikafka.storage.worker import Worker, WorkerLost

_LENGTH = struct.Struct(">Q")
_COMMAND = "from minikafka.storage.worker_process import main; main()"
Result = TypeVar("Result")


class ProcessLane:
    """A `worker.Lane` to a process, which starts with the first call.

    Args:
        run: calls a blocking function in a thread, to the end even if the caller is cancelled.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        self._run = run
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self, function: Callable[..., Result], *args: object) -> Result:
        """See `worker.Lane`. Raises WorkerLost if the process has ended."""
        result: Result = await self._run(self._call, function, args)
        return result

    def _call(self, function: Callable[..., object], args: tuple[object, ...]) -> object:
        if self._process is None:
            self._process = _start()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None, "it is a pipe"
        assert stdout is not None, "it is a pipe"
        try:
            _send(stdin, (function, args))
            found = _receive(stdout)
        except BrokenPipeError:
            found = None
        if found is None:
            raise WorkerLost(f"the process of a worker ended with {self._process.wait()}")
        result, error = found
        if error is not None:
            raise error
        return result

    def close(self) -> None:
        """Kills the process, if it has started."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _start() -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", _COMMAND],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True,
    )  # fmt: skip


def _send(pipe: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> Any:
    """Returns the next message; None at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = pipe.read(length)
    return pickle.loads(data) if len(data) == length else None


# -- in the process ----------------------------------------------------------------------------------------------


def main() -> None:
    """Answers requests until the standard input is closed."""
    from minikafka.storage.disk import RealDisk

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What is printed does not end up among the answers.
    requests: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_read_requests, args=(requests,), daemon=True).start()
    worker = Worker(RealDisk())
    while True:
        _send(answers, _answer(worker, *requests.get()))


def _read_requests(requests: "SimpleQueue[Any]") -> None:
    while (request := _receive(sys.stdin.buffer)) is not None:
        requests.put(request)
    os._exit(0)


def _answer(worker: Worker, function: Callable[..., object], args: tuple[object, ...]) -> tuple[object, Any]:
    try:
        return function(worker, *args), None
    except Exception as error:  # noqa: BLE001 (it is raised again in the parent)
        return None, error
