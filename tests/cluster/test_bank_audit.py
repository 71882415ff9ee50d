"""The audit of the bank finds every kind of wrong ledger."""

from __future__ import annotations

import pytest
from support.bank.transfers import ABORTED, Audit, Entry, Torn, Transfer, entries

FIRST, SECOND = Transfer(1, debtor=0, creditor=1, amount=7), Transfer(2, debtor=1, creditor=2, amount=9)
Ledger = dict[int, list[tuple[int, bytes]]]


def ledger_of(*found: Entry) -> Ledger:
    """Two partitions."""
    partitions: Ledger = {0: [], 1: []}
    for offset, entry in enumerate(found):
        partitions[entry.account % 2].append((offset, entry.encode()))
    return partitions


GOOD = [*entries("a/1/1", [FIRST]), *entries("b/2/1", [SECOND])]


def test_a_whole_ledger_passes() -> None:
    audit = Audit()
    audit.check(ledger_of(*GOOD))
    audit.check_end([FIRST, SECOND])
    assert audit.counted == {1, 2}
    assert audit.by_client == {"a": 1, "b": 1}


def test_a_transaction_that_is_visible_in_part_is_torn_and_does_not_count() -> None:
    audit = Audit()
    with pytest.raises(Torn) as failure:
        audit.check(ledger_of(*GOOD[:3]))
    assert failure.value.attempts == ["b/2/1"]
    assert audit.counted == {1}


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ([*GOOD, *entries("c/3/1", [FIRST])], "counted twice"),
        ([*GOOD, *entries("b/2/1", [SECOND])], "doubled"),
        ([*GOOD, *entries(f"c/3/1{ABORTED}", [Transfer(3, 0, 1, 1)])], "aborted"),
        ([GOOD[0], entries("c/3/1", [FIRST])[1]], "different transactions"),
        ([GOOD[0], Entry("a/1/1", 2, 1, 1, 6)], "total"),
    ],
)
def test_a_wrong_ledger_is_noticed(found: list[Entry], why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        Audit().check(ledger_of(*found))


def test_a_record_that_was_visible_stays() -> None:
    audit = Audit()
    audit.check(ledger_of(*GOOD))
    with pytest.raises(AssertionError, match="has changed"):
        audit.check(ledger_of(*GOOD[2:]))


def test_a_transfer_that_is_missing_at_the_end_is_noticed() -> None:
    audit = Audit()
    audit.check(ledger_of(*GOOD[:2]))
    with pytest.raises(AssertionError):
        audit.check_end([FIRST, SECOND])
