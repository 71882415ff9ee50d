"""Short histories of compacted topics with one anomaly, each with a legal one beside it, as in `planted_histories`."""

from __future__ import annotations

from dataclasses import replace

from chaos.checks.anomaly import Kind
from chaos.history import Read, ReadAll
from chaos.script import COMPACTED, FORGETTING, KEEPING, UNKNOWN, Script


def lost_from_a_compacted_topic(it: Script, *, legal: bool) -> tuple[int, ...]:
    """A later record of the same key may be there, as its outcome is unknown, so that the first one was removed."""
    sent = it.send("a", 0, to=COMPACTED)
    it.send("b", None, to=COMPACTED, outcome=UNKNOWN, key="k" if legal else "other", by="q")
    it.send("c", 2, to=COMPACTED, key="third")
    return sent, it.do("last", ReadAll(COMPACTED, 0, 3, 3, (Read(COMPACTED, 2, "third", "c"),)))


def value_returns(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The tombstone was removed before the record that it deletes. It may stay as long as it wants to."""
    sent = it.send("a", 0, to=FORGETTING)
    tombstone = it.send("b", 1, to=FORGETTING, tombstone=True)
    it.send("c", 2, to=FORGETTING, key="other")
    others = () if legal else (Read(FORGETTING, 0, "k", "a"),)
    reads = (*others, Read(FORGETTING, 2, "other", "c"))
    return sent, tombstone, it.do("last", ReadAll(FORGETTING, 0, 3, 3, reads))


def value_returns_before_a_second_tombstone(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The later one of two tombstones is there, and deletes both."""
    sent = it.send("a", 0, to=FORGETTING)
    it.send("b", 1, to=FORGETTING, tombstone=True)
    last = it.send("c", 2, to=FORGETTING, tombstone=not legal)
    it.send("d", 3, to=FORGETTING, key="other")
    others = (Read(FORGETTING, 2, "k", "c"),) if legal else (Read(FORGETTING, 0, "k", "a"),)
    reads = (*others, Read(FORGETTING, 3, "other", "d"))
    return sent, last, it.do("last", ReadAll(FORGETTING, 0, 4, 4, reads))


def value_returns_to_a_second_reading(it: Script, *, legal: bool) -> tuple[int, ...]:
    """The log is cleaned during the first reading: only what is there in the second one was not removed."""
    sent = it.send("a", 0, to=FORGETTING)
    tombstone = it.send("b", 1, to=FORGETTING, tombstone=True)
    it.send("c", 2, to=FORGETTING, key="other")
    reading = ReadAll(FORGETTING, 0, 3, 3, (Read(FORGETTING, 0, "k", "a"), Read(FORGETTING, 2, "other", "c")))
    first = it.do("last", reading)
    it.do("last", replace(reading, read_committed=False, records=reading.records[legal:]))
    return sent, tombstone, first


def lost_last_value_of_a_key(it: Script, *, legal: bool) -> tuple[int, ...]:
    """No reading has a later record of the key, although the outcome of one is unknown. That may be a tombstone."""
    sent = it.send("a", 0, to=COMPACTED)
    it.send("b", None, to=COMPACTED, outcome=UNKNOWN, by="q", tombstone=legal)
    it.send("c", 2, to=COMPACTED, key="third")
    reading = ReadAll(COMPACTED, 0, 3, 3, (Read(COMPACTED, 2, "third", "c"),))
    first = it.do("last", reading)
    it.do("last", replace(reading, read_committed=False))
    return sent, first


def lost_tombstone(it: Script, *, legal: bool) -> tuple[int, ...]:
    """Its topic keeps tombstones, unless a later record of the key replaces them."""
    sent = it.send("a", 0, to=KEEPING, tombstone=True)
    it.send("b", 1, to=KEEPING, key="k" if legal else "other")
    reads = (Read(KEEPING, 1, "k" if legal else "other", "b"),)
    return sent, it.do("last", ReadAll(KEEPING, 0, 2, 2, reads))


HISTORIES = {
    Kind.LOST_WRITE: [lost_from_a_compacted_topic, lost_last_value_of_a_key, lost_tombstone],
    Kind.VALUE_RETURNS: [
        value_returns, value_returns_before_a_second_tombstone, value_returns_to_a_second_reading,
    ],
}
