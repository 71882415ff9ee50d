"""`Nemesis`: random faults in a cluster of processes or containers, each of which ends with all nodes running."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Protocol


class Cluster(Protocol):
    """What can be done to the nodes of a cluster, by id."""

    @property
    def node_ids(self) -> list[int]: ...

    def kill(self, *node_ids: int) -> None: ...
    def stop(self, *node_ids: int) -> None: ...
    def start(self, *node_ids: int) -> None: ...
    def pause(self, *node_ids: int) -> None: ...
    def resume(self, *node_ids: int) -> None: ...


class Partitioned(Cluster, Protocol):
    """A cluster whose nodes can be cut off from each other, while clients still reach them."""

    def isolate(self, *node_ids: int) -> None: ...
    def rejoin(self, *node_ids: int) -> None: ...


Fault = Callable[[], None]


class Nemesis:
    """The faults of nodes."""

    def __init__(self, cluster: Cluster, chance: random.Random) -> None:
        self.cluster = cluster
        self.chance = chance

    def faults(self, count: int) -> list[Fault]:
        """So many faults, drawn in advance; each is done by calling it."""
        every = self.every()
        return [self.chance.choice(every) for _ in range(count)]

    def every(self) -> list[Fault]:
        """All faults."""
        every = [self.one_dies, self.two_die, self.all_die, self.one_leaves, self.one_hangs, self.two_hang]
        return [*every, self.one_stutters, self.one_hangs_and_another_dies]

    def choose(self, count: int) -> list[int]:
        return self.chance.sample(self.cluster.node_ids, count)

    def wait(self, longest_s: float) -> None:
        time.sleep(self.chance.random() * longest_s)

    def hang(self, count: int, longest_s: float) -> None:
        some = self.choose(count)
        self.cluster.pause(*some)
        self.wait(longest_s)
        self.cluster.resume(*some)

    def go(self, end: Callable[..., None], count: int, longest_s: float) -> None:
        some = self.choose(count)
        end(*some)
        self.wait(longest_s)
        self.cluster.start(*some)

    def one_dies(self) -> None:
        self.go(self.cluster.kill, 1, 2)

    def two_die(self) -> None:
        self.go(self.cluster.kill, 2, 1)

    def all_die(self) -> None:
        self.go(self.cluster.kill, 3, 0)

    def one_leaves(self) -> None:
        self.go(self.cluster.stop, 1, 1)

    def one_hangs(self) -> None:
        self.hang(1, 4)

    def two_hang(self) -> None:
        self.hang(2, 3)

    def one_stutters(self) -> None:
        (node_id,) = self.choose(1)
        for _ in range(5):
            self.cluster.pause(node_id)
            self.wait(0.8)
            self.cluster.resume(node_id)
            self.wait(0.2)

    def one_hangs_and_another_dies(self) -> None:
        hanging, dead = self.choose(2)
        self.cluster.pause(hanging)
        self.wait(1)
        self.cluster.kill(dead)
        self.wait(2)
        self.cluster.resume(hanging)
        self.cluster.start(dead)


class NetworkNemesis(Nemesis):
    """The faults of nodes and of the network between them; they last long enough for nodes to be fenced."""

    def __init__(self, cluster: Partitioned, chance: random.Random) -> None:
        super().__init__(cluster, chance)
        self.network = cluster

    def every(self) -> list[Fault]:
        return [*super().every(), self.one_is_isolated, self.two_are_isolated, self.one_is_isolated_and_dies]

    def isolate(self, count: int, longest_s: float) -> None:
        some = self.choose(count)
        self.network.isolate(*some)
        self.wait(longest_s)
        self.network.rejoin(*some)

    def one_is_isolated(self) -> None:
        self.isolate(1, 20)

    def two_are_isolated(self) -> None:
        self.isolate(2, 10)

    def one_is_isolated_and_dies(self) -> None:
        (node_id,) = self.choose(1)
        self.network.isolate(node_id)
        self.wait(12)
        self.cluster.kill(node_id)
        self.network.rejoin(node_id)
        self.cluster.start(node_id)
