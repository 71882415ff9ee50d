"""`Nemesis`: random faults in a cluster of processes or containers, each of which ends with all nodes as they were."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from typing import Protocol

from chaos.journal import Journal

NETWORK = "network partitions between nodes"
LINKS = "network partitions between two nodes, or a node and the clients"
DISKS = "full disks"
CLOCKS = "wrong clocks"


class Cluster(Protocol):
    """What can be done to the nodes of a cluster, by id.

    Attributes:
        cannot: The kinds of faults that are not possible, with the reason: NETWORK, LINKS, DISKS and CLOCKS. Their
            methods are not called.
    """

    @property
    def cannot(self) -> dict[str, str]: ...
    @property
    def node_ids(self) -> list[int]: ...

    def kill(self, *node_ids: int) -> None: ...
    def stop(self, *node_ids: int) -> None: ...
    def start(self, *node_ids: int) -> None: ...
    def pause(self, *node_ids: int) -> None: ...
    def resume(self, *node_ids: int) -> None: ...

    def isolate(self, *node_ids: int) -> None:
        """Cut nodes off from all others, each for itself, while clients still reach them."""

    def rejoin(self, *node_ids: int) -> None: ...

    def cut_link(self, one: int, other: int) -> None: ...
    def mend_link(self, one: int, other: int) -> None: ...

    def cut_clients(self, *node_ids: int) -> None:
        """Cut nodes off from all clients, while the nodes reach each other."""

    def mend_clients(self, *node_ids: int) -> None: ...

    def fill_disk(self, *node_ids: int) -> None: ...
    def empty_disk(self, *node_ids: int) -> None: ...

    def set_clock(self, node_id: int, ahead_s: int) -> None:
        """Set how much the clock of a node is ahead, from its next start on."""


Fault = Callable[[], None]


class Nemesis:
    """Draws faults, and records what it does to which nodes.

    Args:
        waits: The factor of all times for which a fault lasts.
    """

    def __init__(self, cluster: Cluster, chance: random.Random, journal: Journal, waits: float = 1.0) -> None:
        self.cluster = cluster
        self.chance = chance
        self.journal = journal
        self._waits = waits

    def faults(self, count: int) -> list[Fault]:
        """So many faults, drawn in advance; each is done by calling it."""
        every = self.every()
        return [self.chance.choice(every) for _ in range(count)]

    def every(self) -> list[Fault]:
        """All faults that are possible here."""
        faults: dict[str, list[Fault]] = {
            "": [
                self.one_dies, self.two_die, self.all_die, self.one_leaves, self.one_hangs, self.two_hang,
                self.one_stutters, self.one_hangs_and_another_dies,
            ],
            NETWORK: [self.one_is_isolated, self.two_are_isolated, self.one_is_isolated_and_dies],
            LINKS: [
                self.a_link_is_cut, self.two_links_are_cut, self.a_link_flaps, self.clients_lose_one,
                self.a_link_is_cut_and_one_dies,
            ],
            DISKS: [self.one_disk_is_full, self.two_disks_are_full, self.one_disk_is_full_and_its_node_dies],
            CLOCKS: [self.one_clock_is_wrong],
        }  # fmt: skip
        return [one for kind, some in faults.items() if kind not in self.cluster.cannot for one in some]

    def do(self, fault: Fault) -> None:
        """A fault, from its beginning to its end."""
        began_ns = self.journal.clock()
        fault()
        self.journal.fault(began_ns, fault.__name__)

    def wait(self, longest_s: float) -> None:
        """Wait for a random time."""
        time.sleep(self.chance.random() * longest_s * self._waits)

    def _choose(self, count: int) -> list[int]:
        return self.chance.sample(self.cluster.node_ids, count)

    def _act(self, action: Callable[..., None], nodes: Collection[int]) -> None:
        self.journal.deed(action.__name__, nodes)
        action(*nodes)

    def _for_a_while(
        self, begin: Callable[..., None], end: Callable[..., None], count: int, longest_s: float
    ) -> None:
        some = self._choose(count)
        self._act(begin, some)
        self.wait(longest_s)
        self._act(end, some)

    # -- nodes -----------------------------------------------------------------------------------------------------

    def one_dies(self) -> None:
        self._for_a_while(self.cluster.kill, self.cluster.start, 1, 2)

    def two_die(self) -> None:
        self._for_a_while(self.cluster.kill, self.cluster.start, 2, 1)

    def all_die(self) -> None:
        self._for_a_while(self.cluster.kill, self.cluster.start, 3, 0)

    def one_leaves(self) -> None:
        self._for_a_while(self.cluster.stop, self.cluster.start, 1, 1)

    def one_hangs(self) -> None:
        self._for_a_while(self.cluster.pause, self.cluster.resume, 1, 4)

    def two_hang(self) -> None:
        self._for_a_while(self.cluster.pause, self.cluster.resume, 2, 3)

    def one_stutters(self) -> None:
        one = self._choose(1)
        for _ in range(5):
            self._act(self.cluster.pause, one)
            self.wait(0.8)
            self._act(self.cluster.resume, one)
            self.wait(0.2)

    def one_hangs_and_another_dies(self) -> None:
        hanging, dead = self._choose(2)
        self._act(self.cluster.pause, [hanging])
        self.wait(1)
        self._act(self.cluster.kill, [dead])
        self.wait(2)
        self._act(self.cluster.resume, [hanging])
        self._act(self.cluster.start, [dead])

    # -- the network: long enough for nodes to be fenced -------------------------------------------------------------

    def one_is_isolated(self) -> None:
        self._for_a_while(self.cluster.isolate, self.cluster.rejoin, 1, 20)

    def two_are_isolated(self) -> None:
        self._for_a_while(self.cluster.isolate, self.cluster.rejoin, 2, 10)

    def one_is_isolated_and_dies(self) -> None:
        one = self._choose(1)
        self._act(self.cluster.isolate, one)
        self.wait(12)
        self._act(self.cluster.kill, one)
        self._act(self.cluster.rejoin, one)
        self._act(self.cluster.start, one)

    def a_link_is_cut(self) -> None:
        self._for_a_while(self.cluster.cut_link, self.cluster.mend_link, 2, 15)

    def two_links_are_cut(self) -> None:
        """One node is left that reaches both others, which do not reach each other, or nobody reaches one."""
        first, middle, last = self._choose(3)
        self._act(self.cluster.cut_link, [first, middle])
        self.wait(5)
        self._act(self.cluster.cut_link, [middle, last])
        self.wait(10)
        self._act(self.cluster.mend_link, [first, middle])
        self.wait(5)
        self._act(self.cluster.mend_link, [middle, last])

    def a_link_flaps(self) -> None:
        link = self._choose(2)
        for _ in range(5):
            self._act(self.cluster.cut_link, link)
            self.wait(2)
            self._act(self.cluster.mend_link, link)
            self.wait(1)

    def clients_lose_one(self) -> None:
        self._for_a_while(self.cluster.cut_clients, self.cluster.mend_clients, 1, 10)

    def a_link_is_cut_and_one_dies(self) -> None:
        link = self._choose(2)
        self._act(self.cluster.cut_link, link)
        self.wait(5)
        self._act(self.cluster.kill, link[:1])
        self.wait(2)
        self._act(self.cluster.mend_link, link)  # a node that does not reach the active controller is never ready
        self._act(self.cluster.start, link[:1])

    # -- disks and clocks --------------------------------------------------------------------------------------------

    def one_disk_is_full(self) -> None:
        self._for_a_while(self.cluster.fill_disk, self.cluster.empty_disk, 1, 8)

    def two_disks_are_full(self) -> None:
        self._for_a_while(self.cluster.fill_disk, self.cluster.empty_disk, 2, 5)

    def one_disk_is_full_and_its_node_dies(self) -> None:
        one = self._choose(1)
        self._act(self.cluster.fill_disk, one)
        self.wait(5)
        self._act(self.cluster.kill, one)
        self._act(self.cluster.empty_disk, one)
        self._act(self.cluster.start, one)

    def one_clock_is_wrong(self) -> None:
        """By up to an hour, from one start to the next."""
        (node_id,) = self._choose(1)
        self._set_clock(node_id, self.chance.randint(-3600, 3600))
        self.wait(10)
        self._set_clock(node_id, 0)

    def _set_clock(self, node_id: int, ahead_s: int) -> None:
        self._act(self.cluster.stop, [node_id])
        self.journal.deed("wrong_clock" if ahead_s else "right_clock", [node_id])
        self.cluster.set_clock(node_id, ahead_s)
        self._act(self.cluster.start, [node_id])
