"""Faults of the network: cuts in one or both directions, partitions, slow links, lost and half-open connections."""

from __future__ import annotations

from random import Random

from simulation.faults.chaos import Chaos
from simulation.world.network import Link

BREAK_WITHIN_S = 2.0
"""For the count of broken frames: most links are used within that time."""


def _duration_s(random: Random) -> float:
    return random.choice((random.uniform(0.05, 2.0), random.uniform(2.0, 25.0)))


def _two(chaos: Chaos, random: Random) -> tuple[str, str]:
    """Two hosts, at least one of which has a node."""
    node = chaos.any_host(random).name
    return node, random.choice([name for name in chaos.all_addresses() if name != node])


def _cut(chaos: Chaos, random: Random, pairs: list[tuple[str, str]]) -> None:
    network = chaos.cluster.network
    for pair in pairs:
        network.cut(*pair)
        chaos.later(_duration_s(random), network.heal, *pair)


def cut_link(chaos: Chaos, random: Random) -> None:
    """Nothing arrives between two hosts, in one direction or in both."""
    one, other = _two(chaos, random)
    pairs = random.choice(([(one, other)], [(other, one)], [(one, other), (other, one)]))
    chaos.tell(f"cut: {pairs}")
    chaos.count("link cut in one direction" if len(pairs) == 1 else "link cut")
    _cut(chaos, random, pairs)


def isolate(chaos: Chaos, random: Random) -> None:
    """A node is cut off from the other nodes, from the clients, or from all; in one direction or both."""
    node = chaos.any_host(random).name
    nodes = [host.name for host in chaos.hosts() if host.name != node]
    clients = [name for name in chaos.all_addresses() if name not in nodes and name != node]
    others = random.choice((nodes, clients, nodes + clients))
    pairs = [(node, other) for other in others] if random.random() < 0.8 else []
    if not pairs or random.random() < 0.8:
        pairs += [(other, node) for other in others]
    chaos.tell(f"isolated: {pairs}")
    chaos.count("node isolated")
    heal_together(chaos, random, pairs)


def partition(chaos: Chaos, random: Random) -> None:
    """The hosts fall into two groups that cannot reach each other."""
    left = [name for name in chaos.all_addresses() if random.random() < 0.5]
    right = [name for name in chaos.all_addresses() if name not in left]
    pairs = [(one, other) for one in left for other in right]
    pairs += [(other, one) for one, other in pairs]
    chaos.tell(f"partition: {left} and {right}")
    chaos.count("network partitioned")
    heal_together(chaos, random, pairs)


def heal_together(chaos: Chaos, random: Random, pairs: list[tuple[str, str]]) -> None:
    network = chaos.cluster.network
    seconds = _duration_s(random)
    for pair in pairs:
        network.cut(*pair)
        chaos.later(seconds, network.heal, *pair)


def slow_link(chaos: Chaos, random: Random) -> None:
    """A link is slow, or narrow."""
    one, other = _two(chaos, random)
    link = chaos.cluster.network.link(one, other)
    link.latency_s = random.choice((0.01, 0.1, 1.0)) * random.random()
    link.jitter_s = link.latency_s * random.random() * 2
    link.bytes_per_s = random.choice((200e6, 1e6, 20e3))
    chaos.tell(f"slow: {one} to {other}: {link.latency_s:.3f} s, {link.bytes_per_s:.0f} bytes/s")
    chaos.count("link slow")


def fast_links(chaos: Chaos, random: Random) -> None:
    """All links are healed, and as fast as they were."""
    chaos.tell("the network is healed")
    if any(link.is_cut or link.latency_s != Link().latency_s for link in chaos.cluster.network.links.values()):
        chaos.count("network healed")
    chaos.cluster.network.heal_all()


def reset_connections(chaos: Chaos, random: Random) -> None:
    """Connections between two hosts are lost."""
    one, other = _two(chaos, random)
    share = random.choice((0.5, 1.0))
    lost = chaos.cluster.network.reset_connections(one, other, chosen=lambda _: random.random() < share)
    if lost:
        chaos.tell(f"{lost} connections of {one} and {other} are lost")
        chaos.count("connections lost")


def forget_connections(chaos: Chaos, random: Random) -> None:
    """Connections are half-open: one end does not know them any more, and does not say so."""
    one, other = _two(chaos, random)
    if chaos.cluster.network.forget_connections(*random.choice(((one, other), (other, one)))):
        chaos.tell(f"connections of {one} and {other} are half-open")
        chaos.count("connections half-open")


def break_frame(chaos: Chaos, random: Random) -> None:
    """The next data between two hosts ends in the middle, and the connection with it."""
    one, other = _two(chaos, random)
    link = chaos.cluster.network.link(*random.choice(((one, other), (other, one))))
    link.break_next = True
    chaos.later(BREAK_WITHIN_S, _count_if_broken, chaos, link)


def _count_if_broken(chaos: Chaos, link: Link) -> None:
    if not link.break_next:
        chaos.count("connection cut in the middle of a frame")
