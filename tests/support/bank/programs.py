"""The processes of the bank: they start, die, hang, and come back as zombies; each start is another client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from support.java_programs import compiled, why_not_compiled
from support.logins import Login

FOLDER = Path(__file__).parent
MEMBERS = ("minikafka", "confluent")
"""Clients that send their membership along with the offsets (KIP-447)."""
SOLITARY = ("aiokafka", "kafka_python")


class Slot(NamedTuple):
    """What one program at a time does."""

    transactional_id: str
    source: str
    role: str


class Programs:
    """One program for each slot.

    Args:
        folder: For compiled classes, the address and the user of the programs, and the output of the programs.
        rest: What the programs have in common: group, ledger, number of partitions.
    """

    def __init__(self, folder: Path, login: Login, group: str, ledger: str, partitions: int) -> None:
        self._folder, self._properties = folder, login.write(folder / "client.properties")
        self._group, self._ledger, self._partitions = group, ledger, partitions
        self._java = [] if why_not_compiled() else compiled(FOLDER / "Transfers.java", folder)
        javas = ("java",) if self._java else ()
        self._members = cycle((*MEMBERS, *javas))
        self._all = cycle((*SOLITARY, *javas, *MEMBERS))
        self._running: dict[Slot, subprocess.Popen[bytes]] = {}
        self._zombies: list[subprocess.Popen[bytes]] = []
        self.started = Counter[str]()

    def keep_running(self, *slots: Slot) -> None:
        """Start what does not run."""
        for slot in slots:
            found = self._running.get(slot)
            if found is None or found.poll() is not None:
                self._running[slot] = self._start(slot)

    def kill(self, slot: Slot) -> None:
        """SIGKILL, and another program in its place."""
        found = self._running.pop(slot)
        found.kill()
        found.wait()
        self.keep_running(slot)

    def replace(self, slot: Slot) -> None:
        """SIGSTOP, and another program in its place, until `wake_zombies`."""
        zombie = self._running.pop(slot)
        zombie.send_signal(signal.SIGSTOP)
        self._zombies.append(zombie)
        self.keep_running(slot)

    def wake_zombies(self) -> None:
        """SIGCONT: they go on where they stood still."""
        for zombie in self._zombies:
            zombie.send_signal(signal.SIGCONT)

    def end(self) -> None:
        """SIGKILL for all."""
        for process in [*self._running.values(), *self._zombies]:
            process.kill()
            process.wait()
        self._running.clear()

    def _start(self, slot: Slot) -> subprocess.Popen[bytes]:
        client = next(self._all if slot.role.isdigit() else self._members)
        self.started[client] += 1
        words = (str(self._properties), slot.transactional_id, self._group, slot.source, self._ledger, self._partitions)
        command = [*self._command(client), *map(str, words), slot.role]
        with (self._folder / f"{sum(self.started.values()):04}-{slot.transactional_id}-{client}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"})

    def _command(self, client: str) -> list[str]:
        return self._java if client == "java" else [sys.executable, str(FOLDER / f"with_{client}.py")]
