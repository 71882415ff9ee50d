"""Transfers, the entries of the ledger, and `Audit`: what must hold of each snapshot of the ledger. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

ACCOUNTS = 12
OPENING_BALANCE = 1_000
ABORTED = "!"
"""The end of the name of an attempt that is aborted on purpose."""

Snapshot = Mapping[int, Sequence[tuple[int, bytes]]]
"""By partition of the ledger: offsets and values, from the first to the last stable offset."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """An amount that goes from one account to another."""

    number: int
    debtor: int
    creditor: int
    amount: int

    @classmethod
    def of(cls, value: bytes) -> Transfer:
        return cls(*map(int, value.split()))

    def encode(self) -> bytes:
        return b"%d %d %d %d" % (self.number, self.debtor, self.creditor, self.amount)


def random_transfer(number: int, random: Random) -> Transfer:
    debtor, creditor = random.sample(range(ACCOUNTS), 2)
    return Transfer(number, debtor, creditor, random.randint(1, 100))


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of one account's balance; `size` entries belong to the attempt, which is one transaction."""

    attempt: str
    size: int
    transfer: int
    account: int
    change: int

    @classmethod
    def of(cls, value: bytes) -> Entry:
        attempt, *numbers = value.decode().split()
        return cls(attempt, *map(int, numbers))

    def encode(self) -> bytes:
        return f"{self.attempt} {self.size} {self.transfer} {self.account} {self.change}".encode()


def entries(attempt: str, transfers: Sequence[Transfer]) -> list[Entry]:
    """A debit and a credit for each transfer."""
    size = 2 * len(transfers)
    return [
        Entry(attempt, size, one.number, account, change)
        for one in transfers
        for account, change in ((one.debtor, -one.amount), (one.creditor, one.amount))
    ]


def partition_of(account: int, partitions: int) -> int:
    """The partition of the ledger with an account's entries."""
    return account % partitions


class Torn(Exception):
    """Some entries of a transaction are visible and others are not; `attempts` are those transactions."""

    def __init__(self, attempts: list[str]) -> None:
        super().__init__(f"transactions are visible in part: {attempts}")
        self.attempts = attempts


@dataclass
class Audit:
    """Checks snapshots, of which each continues the one before it. Every check raises AssertionError.

    Attributes:
        counted: the numbers of the transfers whose transactions are visible as a whole.
        by_client: how many transactions of each client are visible.
        snapshots: how many have been checked.
    """

    counted: set[int] = field(default_factory=set[int])
    by_client: Counter[str] = field(default_factory=Counter[str])
    snapshots: int = 0
    _known: dict[int, Sequence[tuple[int, bytes]]] = field(default_factory=dict[int, Sequence[tuple[int, bytes]]])

    def check(self, snapshot: Snapshot) -> None:
        """Check a snapshot. Raises Torn, after all other checks, if a transaction has its markers in some partitions
        only; the total is that of the other transactions."""
        for partition, known in self._known.items():
            assert snapshot[partition][: len(known)] == known, f"partition {partition} of the ledger has changed"
        found = [Entry.of(value) for records in snapshot.values() for _, value in records]
        by_attempt = defaultdict[str, list[Entry]](list)
        for entry in found:
            by_attempt[entry.attempt].append(entry)
        _check_attempts(by_attempt)
        _check_transfers(found)
        self._known = dict(snapshot)
        torn = [attempt for attempt, some in by_attempt.items() if len(some) < some[0].size]
        whole = [entry for entry in found if entry.attempt not in torn]
        total = sum(balances(whole).values())
        assert total == ACCOUNTS * OPENING_BALANCE, f"the total is {total}"
        self.counted = {entry.transfer for entry in whole}
        self.by_client = Counter(attempt.partition("/")[0] for attempt in by_attempt)
        self.snapshots += 1
        if torn:
            raise Torn(torn)

    def check_end(self, transfers: Iterable[Transfer]) -> None:
        """Every transfer is counted once, and each account has what they leave to it."""
        found = [Entry.of(value) for records in self._known.values() for _, value in records]
        expected = [entry for one in transfers for entry in entries("", [one])]
        assert self.counted == {entry.transfer for entry in expected}
        assert len(found) == len(expected)
        assert balances(found) == balances(expected)


def balances(found: Iterable[Entry]) -> dict[int, int]:
    """What each account has."""
    result = dict.fromkeys(range(ACCOUNTS), OPENING_BALANCE)
    for entry in found:
        result[entry.account] += entry.change
    return result


def _check_attempts(by_attempt: Mapping[str, list[Entry]]) -> None:
    for attempt, some in by_attempt.items():
        assert not attempt.endswith(ABORTED), f"aborted records are visible: {some}"
        assert len(some) <= some[0].size, f"records of a transaction are doubled: {some}"


def _check_transfers(found: Iterable[Entry]) -> None:
    doubled = [key for key, count in Counter((one.transfer, one.account) for one in found).items() if count > 1]
    assert not doubled, f"transfers are counted twice: {doubled[:10]}"
    attempts = defaultdict[int, set[str]](set)
    for entry in found:
        attempts[entry.transfer].add(entry.attempt)
    mixed = [(number, some) for number, some in attempts.items() if len(some) > 1]
    assert not mixed, f"halves of different transactions: {mixed[:10]}"
