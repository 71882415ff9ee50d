"""`MemberProcess`: a member of a group in a process of its own, as the test sees it."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

from support.mixed_groups.journal import Journal, Place

ANSWER_S = 90
PYTHON = (sys.executable, "-m", "support.mixed_groups.member")


class MemberEnded(Exception):
    """The process has ended, or does not answer."""


class MemberProcess:
    """A member. It is killed at the end of the block, unless it has left.

    Args:
        command: What begins the process, without the arguments that all clients have.
        lock: Held while the journal changes.
    """

    def __init__(
        self, name: str, command: Sequence[str], arguments: Sequence[str], journal: Journal, lock: threading.Lock
    ) -> None:
        self.name = name
        self._journal, self._lock = journal, lock
        self._answers: queue.Queue[str] = queue.Queue()
        self._next: dict[Place, int] = {}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [*command, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, env=environment,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> MemberProcess:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._journal.ended(self.name, time.monotonic_ns())
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def poll(self) -> None:
        """Poll once. Raises MemberEnded."""
        answer = self._ask("poll")
        reads = [word.rsplit(":", 3) for word in answer.split()[1:]] if answer.startswith("records") else []
        with self._lock:
            self._journal.reads += len(reads)
            for topic, number, offset, value in reads:
                self._journal.seen.add(value)
                self._next[topic, int(number)] = int(offset) + 1

    def commit(self) -> None:
        """Commit what was read of the partitions that it still has. Raises MemberEnded."""
        with self._lock:
            offsets, self._next = dict(self._next), {}
        if not offsets:
            return
        began = time.monotonic_ns()
        answer = self._ask(" ".join(["store", *(f"{topic}:{n}:{at}" for (topic, n), at in offsets.items())]))
        with self._lock:
            if answer == "done":
                owned = {place: at for place, at in offsets.items() if self._has(place)}
                self._journal.committed(self.name, owned, began)
            else:
                self._journal.refused += 1

    def leave(self) -> None:
        """Leave the group. Raises MemberEnded."""
        self._ask("leave")

    def _has(self, place: Place) -> bool:
        return any(one.member == self.name and one.until is None for one in self._journal.tenures[place])

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()
            answer = self._answers.get(timeout=ANSWER_S)
        except (OSError, queue.Empty) as error:
            raise MemberEnded(f"{self.name}: {line[:20]}") from error
        if not answer:
            raise MemberEnded(self.name)
        return answer

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            words = line.split()
            if words[:1] == ["moved"]:
                self._moved(words[1], int(words[2]), words[3:])
            elif words:
                self._answers.put(line.rstrip("\n"))
        self._answers.put("")

    def _moved(self, cause: str, at: int, words: Sequence[str]) -> None:
        named = [word.rsplit(":", 1) for word in words]
        places = [(topic, int(number)) for topic, number in named]
        with self._lock:
            if cause == "assigned":
                self._journal.assigned(self.name, places, at)
            else:
                self._journal.released(self.name, places, at)
            for place in places:
                self._next.pop(place, None)
