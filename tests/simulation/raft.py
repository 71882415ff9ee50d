"""A seed is a quorum, its troubles, and its recovery. Any failure is a seed.

    PYTHONPATH=tests python -m simulation.raft --seeds 10000           # as many as one likes; --first 0, --jobs 2
    PYTHONPATH=tests python -m simulation.raft --trace 4711            # the story of one, as text

In the first part all sorts of things go wrong: messages are lost, late, doubled and overtake each other; nodes crash
and lose what they had not synced, stand still, have clocks that run fast, slow and jump; links break, some in one
direction only. `raft_checks` watches. In the second part the troubles end, and the quorum has to find together.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing import get_context
from random import Random
from time import process_time
from typing import TYPE_CHECKING

from simulation.raft_world import Network, Node, World

if TYPE_CHECKING:
    from collections.abc import Callable

TROUBLES_LAST = 3.0
RECOVERY_MAX = 30.0
"""Seconds of simulated time. Recovery takes about one; clocks that are slow and pauses that still last may add some."""


class NoProgress(AssertionError):
    """The troubles are over, and still the quorum does not work."""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a seed.

    Attributes:
        events: how many there were.
        sometimes: how often what was seen.
    """

    seed: int
    events: int
    sometimes: dict[str, int]


def run(seed: int, trace: Callable[[str], None] | None = None) -> Told:
    """The story of a seed.

    Raises:
        Violation, NoProgress, Inconsistent, AssertionError: it ends badly.
    """
    story = Story(seed, trace)
    story.trouble()
    story.recover()
    return Told(seed, story.world.events_count, story.world.checker.sometimes)


class Story:
    """A world, and what befalls it."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None) -> None:
        random = self.random = Random(seed)
        voters = random.choices((1, 3, 5), (1, 12, 4))[0]
        network = Network(
            loss=random.choice((0, 0, 0.02, 0.1, 0.3)),
            doubling=random.choice((0, 0, 0.1)),
            delay=random.choice((0.001, 0.001, 0.01, 0.05)),
        )
        self.world = World(
            seed=random.getrandbits(64),
            voters=voters,
            observers=random.choice((0, 0, 1, 2)),
            network=network,
            sync_delay=random.choice((0, 0.002, 0.02, 0.1)),
            clock_skew=random.choice((0, 0, 0.1, 0.3)),
            trace=trace,
        )
        self.misfortunes = random.choices(*zip(*MISFORTUNES, strict=True), k=random.randint(1, 6))
        self.pace = random.choice((0.05, 0.1, 0.3))
        """Mean time between misfortunes, and between appends."""

    def trouble(self) -> None:
        self.world.tell(
            f"{len(self.world.voters)} voters of {len(self.world.nodes)} nodes, {self.world.network},"
            f" syncs take {self.world.sync_delay}"
        )
        self._next_append()
        if len(self.world.nodes) > 1:
            self.world.at(0.5 + self.random.random(), self._misfortune)
        self.world.run_until(TROUBLES_LAST)

    def _next_append(self) -> None:
        leader = self.world.leader
        if leader is not None and self.random.random() < 0.7:
            self.world.append(leader, self.random.randint(1, 3))
        else:
            self.world.append(self._anybody())  # which may still think that it leads
        if self.world.now < TROUBLES_LAST:
            self.world.at(self.world.now + self.random.expovariate(1 / self.pace), self._next_append)

    def _misfortune(self) -> None:
        if self.world.now < TROUBLES_LAST:
            self.random.choice(self.misfortunes)(self)
            self.world.at(self.world.now + self.random.expovariate(1 / self.pace), self._misfortune)

    def _anybody(self) -> Node:
        """The leader more often than others: that is where it hurts."""
        leader = self.world.leader
        if leader is not None and self.random.random() < 0.4:
            return leader
        return self.random.choice(list(self.world.nodes.values()))

    def crash(self) -> None:
        node = self._anybody()
        if node.raft is None:
            self.world.start(node)
            return
        self.world.crash(node)
        if self.random.random() < 0.6:
            self.world.at(self.world.now + self.random.random() * 0.5, self._restart, node)

    def crash_after_append(self) -> None:
        """The leader, while what it has appended is on its way to others and to its own disk."""
        leader = self.world.leader
        if leader is not None:
            self.world.append(leader, 3)
            self.world.at(self.world.now + self.random.expovariate(1 / 0.01), self._crash_for_a_while, leader)

    def _crash_for_a_while(self, node: Node) -> None:
        if node.raft is not None:
            self.world.crash(node)
            self.world.at(self.world.now + self.random.random(), self._restart, node)

    def crash_all(self) -> None:
        for node in self.world.running:
            self.world.crash(node)
            self.world.at(self.world.now + self.random.random() * 0.3, self._restart, node)

    def _restart(self, node: Node) -> None:
        if node.raft is None:
            self.world.start(node)

    def cut_off(self) -> None:
        """One node from all others, in both directions or in one."""
        node = self._anybody()
        direction = self.random.choice(("both", "in", "out"))
        self.world.tell(f"{node} is cut off ({direction})")
        for other in self.world.nodes:
            if direction != "in":
                self.world.network.cut.add((node.id, other))
            if direction != "out":
                self.world.network.cut.add((other, node.id))

    def part(self) -> None:
        """Two groups of nodes."""
        others = list(self.world.nodes)
        self.random.shuffle(others)
        left = set(others[: self.random.randint(1, len(others))])
        self.world.tell(f"nodes {sorted(left)} are parted from the others")
        self.world.network.cut |= {(one, two) for one in others for two in others if (one in left) != (two in left)}

    def break_link(self) -> None:
        """Between two nodes, in one direction."""
        one, two = self.random.choice(list(self.world.nodes)), self.random.choice(list(self.world.nodes))
        self.world.tell(f"nothing gets from n{one} to n{two}")
        self.world.network.cut.add((one, two))

    def mend(self) -> None:
        self.world.tell("the network is whole")
        self.world.network.cut.clear()

    def pause(self) -> None:
        self.world.pause(self._anybody(), self.random.expovariate(1 / 0.4))

    def jump(self) -> None:
        self.world.jump(self._anybody(), self.random.expovariate(1 / 0.5))

    def snapshot(self) -> None:
        self.world.snapshot(self._anybody(), trim=self.random.random() < 0.8)

    def resign(self) -> None:
        self.world.resign(self._anybody())

    def recover(self) -> None:
        """Everything works again; then within some time everybody has to have the same, and something new."""
        world = self.world
        world.tell("the troubles are over")
        world.network.cut.clear()
        world.network.loss = world.network.doubling = 0.0
        world.network.delay = min(world.network.delay, 0.01)
        for node in world.nodes.values():
            node.paused_until = min(node.paused_until, world.now + 0.1)
            self._restart(node)
        before = world.checker.committed_end
        ends_at = world.now + RECOVERY_MAX
        while not world.is_settled(before):
            if world.now > ends_at:
                raise NoProgress(f"nothing beyond {before} is committed everywhere: {describe(world)}")
            leader = world.leader
            if leader is not None and leader.log.end_offset <= before + 10:
                world.append(leader)
            world.run_until(world.now + 0.1)
        if any(node.log.truncations for node in world.nodes.values()):
            world.checker.seen("node that truncated its log")


MISFORTUNES: list[tuple[Callable[[Story], None], float]] = [
    (Story.crash, 4),
    (Story.crash_all, 1),
    (Story.crash_after_append, 3),
    (Story.cut_off, 2),
    (Story.part, 2),
    (Story.break_link, 2),
    (Story.mend, 3),
    (Story.pause, 1),
    (Story.jump, 1),
    (Story.snapshot, 3),
    (Story.resign, 1),
]
"""What may happen, and how often it is picked. Each seed has a few of them, so that they are not always all there."""


def describe(world: World) -> str:
    return ", ".join(
        f"{node} {node.raft.role.value} epoch {node.raft.epoch} of n{node.raft.leader_id} applied {node.applied}"
        f" end {node.log.end_offset}"
        if node.raft
        else f"{node} down"
        for node in world.nodes.values()
    )


def trace_hash(seed: int) -> str:
    """Of the whole story: the same in every process."""
    digest = sha256()
    run(seed, lambda line: digest.update(line.encode()))
    return digest.hexdigest()


def story_of(seed: int) -> tuple[list[str], Exception | None]:
    """The lines of a seed's story, and how it ended."""
    lines: list[str] = []
    try:
        run(seed, lines.append)
    except Exception as error:  # noqa: BLE001 (whatever it was is what is looked for)
        return lines, error
    return lines, None


@dataclass(slots=True)
class Tally:
    """What came of many seeds."""

    seeds: int
    events: int
    seconds: float
    sometimes: dict[str, int]
    failed: dict[int, str]

    def add(self, other: Tally) -> None:
        self.seeds += other.seeds
        self.events += other.events
        self.seconds += other.seconds
        self.failed |= other.failed
        for what, count in other.sometimes.items():
            self.sometimes[what] = self.sometimes.get(what, 0) + count


def run_many(first: int, count: int, *, failures_max: int = 5) -> Tally:
    """Run seeds `first`, `first` + 1, …"""
    tally = Tally(0, 0, 0.0, {}, {})
    began = process_time()
    for seed in range(first, first + count):
        try:
            told = run(seed)
        except Exception as error:  # noqa: BLE001 (whatever it was, it has a seed now)
            tally.failed[seed] = f"{type(error).__name__}: {error}"
            if len(tally.failed) >= failures_max:
                break
            continue
        tally.add(Tally(1, told.events, 0.0, told.sometimes, {}))
    tally.seconds = process_time() - began
    return tally


def run_parallel(first: int, count: int, *, jobs: int, portion: int = 250) -> Tally:
    """The same in several processes."""
    tally = Tally(0, 0, 0.0, {}, {})
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        starts = range(first, first + count, portion)
        parts = [pool.submit(run_many, start, min(portion, first + count - start)) for start in starts]
        for part in parts:
            tally.add(part.result())
    return tally


def report(tally: Tally) -> str:
    lines = [f"{tally.seeds} seeds, {tally.events} events in {tally.seconds:.1f} s of processor time"]
    lines += [f"  {count:9} {what}" for what, count in sorted(tally.sometimes.items())]
    for seed, error in sorted(tally.failed.items())[:5]:
        lines += [f"FAILED seed {seed}: {error}", f"  python -m simulation.raft --trace {seed}"]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate quorums.")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--trace", type=int, help="tell the story of this seed")
    options = parser.parse_args()
    if options.trace is not None:
        lines, error = story_of(options.trace)
        print("\n".join(lines), f"\n{error!r}" if error else "\nall is well")
        return 1 if error else 0
    tally = run_parallel(options.first, options.seeds, jobs=options.jobs)
    print(report(tally))
    for seed in sorted(tally.failed)[:1]:
        lines, _ = story_of(seed)
        print(f"the end of seed {seed}:", *lines[-60:], sep="\n")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
