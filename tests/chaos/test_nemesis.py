"""The nemesis: which faults it draws, what it does to nodes, and the journal of it."""

from __future__ import annotations

import itertools
from collections import defaultdict
from random import Random

import pytest

from chaos.journal import Deed, Entry, Fault, Journal, State, read_journal, write_journal
from chaos.nemesis import CLOCKS, DISKS, LINKS, NETWORK, Nemesis
from chaos.observer import Told, agreed
from minikafka.protocol.names import TopicPartition

ENDS = {"kill": "start", "stop": "start", "pause": "resume", "isolate": "rejoin", "cut_link": "mend_link"}
ENDS |= {"cut_clients": "mend_clients", "fill_disk": "empty_disk", "wrong_clock": "right_clock"}


class FakeCluster:
    """Three nodes that do nothing."""

    def __init__(self, *cannot: str) -> None:
        self.node_ids = [1, 2, 3]
        self.cannot = dict.fromkeys(cannot, "a reason")

    def __getattr__(self, name: str) -> object:
        def action(*_: int) -> None: ...

        action.__name__ = name
        return action


def nemesis_of(cluster: FakeCluster, seed: int = 1) -> tuple[Nemesis, Journal]:
    ticks = itertools.count()
    journal = Journal(lambda: next(ticks))
    return Nemesis(cluster, Random(seed), journal, waits=0), journal  # type: ignore[arg-type]


ALL = nemesis_of(FakeCluster())[0].every()


@pytest.mark.parametrize("name", [one.__name__ for one in ALL])
def test_each_fault_ends_everything_that_it_begins(name: str) -> None:
    nemesis, journal = nemesis_of(FakeCluster())
    nemesis.do(getattr(nemesis, name))
    *deeds, fault = journal.entries
    assert isinstance(fault, Fault)
    assert fault.name == name
    begun: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for deed in deeds:
        assert isinstance(deed, Deed)
        assert fault.began_ns < deed.at_ns < fault.ended_ns
        for nodes in [deed.nodes] if "link" in deed.action else [(one,) for one in deed.nodes]:
            if deed.action in ENDS:
                begun[ENDS[deed.action]].add(nodes)
            else:
                begun[deed.action].remove(nodes)
    assert not any(begun.values()), begun


def test_a_seed_gives_the_same_faults() -> None:
    first, second = (nemesis_of(FakeCluster(), seed=3)[0].faults(30) for _ in range(2))
    assert [one.__name__ for one in first] == [one.__name__ for one in second]
    assert len({one.__name__ for one in first}) > 10


@pytest.mark.parametrize(
    ("kind", "word"), [(NETWORK, "isolated"), (LINKS, "link"), (DISKS, "disk"), (CLOCKS, "clock")]
)
def test_what_the_cluster_cannot_do_is_not_drawn(kind: str, word: str) -> None:
    assert any(word in one.__name__ for one in ALL)
    assert not any(word in one.__name__ for one in nemesis_of(FakeCluster(kind))[0].every())


def test_a_journal_is_written_and_read() -> None:
    tp = TopicPartition("steady", 1)
    entries: list[Entry] = [Deed(1, "kill", (1, 2)), Fault(1, 5, "two_die"), State(3, tp, -1, (3,))]
    assert list(read_journal(write_journal(entries))) == entries
    with pytest.raises(ValueError, match="line 2 is no entry"):
        list(read_journal([*write_journal(entries[:1]), '{"entry": "nothing"}']))


def test_the_state_of_a_partition_is_what_most_brokers_with_the_latest_epoch_say() -> None:
    stale, short, whole = Told(4, 1, (1, 2, 3)), Told(5, 2, (2, 3)), Told(5, 2, (1, 2, 3))
    assert agreed([stale, stale, short]) == short
    assert agreed([whole, short, short]) == short
    assert agreed([whole, whole, short]) == whole
    assert agreed([whole, short]) == short
