"""The program of a worker process: answers the requests of `worker_process.ProcessLane`."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any

from minikafka.protocol.errors import without_frames
from minikafka.storage.disks.disk import RealDisk
from minikafka.storage.disks.worker import Worker
from minikafka.storage.disks.worker_process import CODE, OTHER_CODE, receive, send


def main() -> None:
    """Answers requests until the standard input is closed. Its argument is the `CODE` of the parent."""
    if sys.argv[1:] != [CODE]:
        sys.exit(OTHER_CODE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What is printed does not end up among the answers.
    requests: SimpleQueue[Any] = SimpleQueue()
    Thread(target=_read_requests, args=(requests,), daemon=True).start()
    worker = Worker(RealDisk())
    while True:
        send(answers, _answer(worker, *requests.get()))


def _read_requests(requests: "SimpleQueue[Any]") -> None:
    status = 1
    try:
        while (request := receive(sys.stdin.buffer)) is not None:
            requests.put(request)
        status = 0
    except Exception:  # noqa: BLE001 (the request is of other code than this)
        traceback.print_exc()
    finally:
        os._exit(status)


def _answer(worker: Worker, function: Callable[..., object], args: tuple[object, ...]) -> tuple[object, Any]:
    try:
        return function(worker, *args), None
    except Exception as error:  # noqa: BLE001 (it is raised again in the parent)
        return None, without_frames(error)


if __name__ == "__main__":
    main()
