"""What the programs of the bank in Python share: their arguments, and what they write.

    python with_….py PROPERTIES TRANSACTIONAL_ID GROUP FROM LEDGER PARTITIONS ROLE

PROPERTIES is a file of the Java client (`support.logins`). ROLE is "dynamic", "static", or the partition of FROM that
is the program's own. A program ends by a signal, or when anything fails that its client does not mend by itself: it is
then started again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

from support.bank.transfers import ABORTED, Transfer, entries, partition_of
from support.logins import Login

RECORDS_MAX = 10
POLL_S = 0.2
TIMEOUT_S = 30
HANGING_S = 20
"""librdkafka 2.16 may wait for the group's former coordinator while that is dead, beyond the timeout of the call, and
kafka-python 3.0 waits without a timeout for the end of a transaction: a program that hangs so ends itself."""
SESSION_MS = 6_000
HEARTBEAT_MS = 500
REQUEST_MS = 3_000
TRANSACTION_MS = 20_000


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    """Ends the process by SIGALRM if the block takes longer."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


@dataclass
class Work:
    """The arguments of a program, and the transactions that it has begun."""

    client: str
    login: Login
    transactional_id: str
    group: str
    source: str
    ledger: str
    partitions: int
    role: str
    _begun: int = field(default=0)

    @classmethod
    def of_arguments(cls, client: str) -> Work:
        path, transactional_id, group, source, ledger, partitions, role = sys.argv[1:]
        return cls(client, Login.read(Path(path)), transactional_id, group, source, ledger, int(partitions), role)

    @property
    def own_partition(self) -> int | None:
        """The partition that is the program's own; None for a member of a group."""
        return int(self.role) if self.role.isdigit() else None

    @property
    def instance_id(self) -> str | None:
        return self.transactional_id if self.role == "static" else None

    def attempt(self, values: Iterable[bytes]) -> tuple[bool, list[tuple[int, bytes]]]:
        """Whether to commit, and partitions and values to write. The second transaction, and then each eighth one, is
        aborted on purpose."""
        self._begun += 1
        commits = self._begun % 8 != 2
        name = f"{self.client}/{os.getpid()}/{self._begun}{'' if commits else ABORTED}"
        made = entries(name, [Transfer.of(value) for value in values])
        return commits, [(partition_of(one.account, self.partitions), one.encode()) for one in made]
