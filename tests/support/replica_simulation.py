"""Simulation of one partition on three nodes under random faults, reproducible by seed.

Messages are delayed, lost, or reach a restarted node; nodes apply the metadata log one record at a time; leaders
change, brokers are fenced, killed, and lose power. Invariants, checked after each step:

- every replica shows the same committed record at an offset, for ever;
- acknowledged records are on the replicas that may lead next.

At the end all faults are healed: the logs are byte-identical and have every acknowledged record at its offset.

    PYTHONPATH=tests python -m support.replica_simulation --seeds 300       # ends with the first that fails
"""

from __future__ import annotations

import argparse
import logging
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog
import trio

from minikafka.broker.partitions.follower_progress import IsrProposal
from minikafka.broker.replication.follower_fetch_state import FollowerFetchState
from minikafka.protocol.errors import NotEnoughReplicasError
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse
from support.replica_world import Node, World

FENCED_OUT = 3
STEPS = 250


@dataclass(eq=False)
class Message:
    """A message in flight: a fetch, its response, or a proposal for the controller."""

    life: int
    sender: Node
    receiver: Node | None
    fetch_state: FollowerFetchState | None
    content: FetchRequest | FetchResponse | IsrProposal


class Simulation(World):
    """See above.

    Attributes:
        shown: By offset, the record that was committed.
        unsure: Nodes that went down and are not in the ISR again; they may have lost records.
    """

    def __init__(self, seed: object, *, min_isr: int = 2) -> None:
        self.lives = dict.fromkeys((1, 2, 3), 0)
        self.shown: dict[int, tuple[int, bytes]] = {}
        self.checked = dict.fromkeys((1, 2, 3), 0)
        self.unsure: dict[int, str] = {}
        self.messages: list[Message] = []
        self.busy: dict[FollowerFetchState, None] = {}
        self.history: list[str] = []
        self.count = 0
        super().__init__(seed, min_isr=min_isr)

    async def run(self, steps: int) -> None:
        """Run `steps` random events, then heal. Raises AssertionError; `history` has the events."""
        events = (
            [self.produce] * 4 + [self.ask] * 6 + [self.deliver] * 14 + [self.learn] * 4 + [self.pass_time] * 2
            + [self.propose] * 2 + [self.suspect, self.come_back, self.come_back, self.move_leader, self.lose]
            + [self.go_down, self.come_up, self.come_up]
        )  # fmt: skip
        for _ in range(steps):
            event = self.random.choice(events)
            self.history.append(event.__name__)
            await event()
            self.check()
        await self.heal()

    # -- events --------------------------------------------------------------------------------------------------

    def living(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.alive]

    async def produce(self) -> None:
        leaders = [node for node in self.living() if node.leads]
        if leaders:
            self.count += 1
            with suppress(NotEnoughReplicasError):
                self.random.choice(leaders).produce(b"%d" % self.count, acks=self.random.choice((-1, -1, 1)))

    async def ask(self) -> None:
        node = self.random.choice(list(self.nodes.values()))
        fetch_state = node.fetch_states.get(node.partition.leader_id) if node.alive else None
        if fetch_state is not None and fetch_state not in self.busy:
            asked = node.ask()
            if asked is not None:
                self.busy[fetch_state] = None
                self.messages.append(Message(self.lives[node.node_id], node, asked[0], fetch_state, asked[2]))

    async def deliver(self) -> None:
        if not self.messages:
            return
        message = self.messages.pop(self.random.randrange(len(self.messages)))
        sender, receiver, content = message.sender, message.receiver, message.content
        if isinstance(content, IsrProposal):
            self._decide(message, content)
        elif isinstance(content, FetchRequest) and receiver is not None:
            if not receiver.alive:
                self._hang_up(message)
                return
            message.content = await receiver.answer(content)
            self.messages.append(message)
        elif isinstance(content, FetchResponse) and message.fetch_state is not None:
            self.busy.pop(message.fetch_state, None)
            if sender.alive and self.lives[sender.node_id] == message.life:
                sender.take(message.fetch_state, content)

    def _decide(self, message: Message, proposal: IsrProposal) -> None:
        error = self.alter(message.sender, proposal)
        self.history.append(f"{proposal.node_ids} → {error.name}")
        if message.sender.alive and self.lives[message.sender.node_id] == message.life and self.random.random() < 0.8:
            message.sender.settle(proposal, error)

    async def lose(self) -> None:
        if self.messages:
            message = self.messages.pop(self.random.randrange(len(self.messages)))
            if isinstance(message.content, IsrProposal):
                self.messages.append(message)  # asked again until it is handle_response
            else:
                self._hang_up(message)

    def _hang_up(self, message: Message) -> None:
        assert message.fetch_state is not None
        self.busy.pop(message.fetch_state, None)
        message.fetch_state.disconnected()

    async def learn(self) -> None:
        living = self.living()
        if living:
            self.random.choice(living).catch_up(self.random.choice((1, 1, 2, 5)))

    async def pass_time(self) -> None:
        self.now_ms += self.random.choice((5, 50, 500, 4000, 11_000))

    async def propose(self) -> None:
        for node in self.living():
            if node.leads:
                proposal = node.propose()
                if proposal is not None:
                    self.messages.append(Message(self.lives[node.node_id], node, None, None, proposal))

    async def suspect(self) -> None:
        dead = [node for node in self.nodes.values() if not node.alive]
        node = self.random.choice(dead or list(self.nodes.values()))
        self.fence(node.node_id)

    async def come_back(self) -> None:
        for node in self.living():
            if node.applied == len(self.log) and self.image.brokers[node.node_id].epoch == node.broker_epoch:
                self.unfence(node.node_id)

    async def move_leader(self) -> None:
        able = [node_id for node_id in self.state.isr if self.image.may_lead(node_id)]
        if able:
            self.elect(self.random.choice(able))

    async def go_down(self) -> None:
        """Two may be killed at a time. One may lose power, and then no other goes down until it is in sync again:
        min.insync.replicas of 2 does not cover a second node that may have lost records (KIP-966)."""
        for node_id in list(self.unsure):
            if node_id in self.state.isr and self.nodes[node_id].alive:
                del self.unsure[node_id]
        node = self.random.choice(list(self.nodes.values()))
        if not node.alive or len(self.unsure) >= 2 or "power" in self.unsure.values():
            return
        self.lives[node.node_id] += 1
        for message in [one for one in self.messages if one.sender is node and one.fetch_state is not None]:
            if self.random.random() < 0.5:
                self.messages.remove(message)
        what = "kill" if self.unsure or self.random.random() < 0.4 else "power"
        if what == "kill":
            node.kill()
        else:
            node.crash()
        self.history.append(f"{node.node_id}: {what}")
        self.unsure[node.node_id] = what

    async def come_up(self) -> None:
        for node in self.nodes.values():
            if not node.alive:
                node.start()
                self.checked[node.node_id] = 0
                return

    # -- invariants ----------------------------------------------------------------------------------------------

    def check(self) -> None:
        for node in self.living():
            partition = node.partition
            assert 0 <= partition.high_watermark <= partition.log.end_offset
            if partition.high_watermark > self.checked[node.node_id]:
                for offset, value in node.consume(self.checked[node.node_id]):
                    told = self.shown.setdefault(offset, (node.node_id, value))
                    assert told[1] == value, f"offset {offset}: {told} and then {value!r} on {node.node_id}"
                self.checked[node.node_id] = partition.high_watermark
        for made in self.produced:
            if not made.outcome and made.look() == "acked":
                first = made.written.first_offset
                self.shown.setdefault(first, (0, made.value))
                assert self.shown[first][1] == made.value

    async def heal(self) -> None:
        self.messages.clear()
        for fetch_state in list(self.busy):
            fetch_state.disconnected()
        self.busy.clear()
        for node in self.nodes.values():
            if not node.alive:
                node.start()
                self.checked[node.node_id] = 0
        for node_id in self.nodes:
            self.unfence(node_id)
        await self.settle(self._is_whole)
        self.check()
        logs: list[Any] = [node.values() for node in self.nodes.values()]
        assert logs[0] == logs[1] == logs[2], "the logs differ"
        there = {offset: value for offset, _, value in logs[0]}
        for made in self.produced:
            if made.outcome == "acked":
                assert there.get(made.written.first_offset) == made.value, f"acknowledged record {made.value!r} is lost"

    def _is_whole(self) -> bool:
        for node in self.nodes.values():  # Proposals whose answers were lost.
            leader_state = node.partition.leader_state
            if leader_state is not None and leader_state.pending is not None:
                error = self.alter(node, leader_state.pending)
                node.settle(leader_state.pending, error)
        marks = {(node.partition.log.end_offset, node.partition.high_watermark) for node in self.nodes.values()}
        return len(self.state.isr) == len(self.nodes) and len(marks) == 1 and len(set(next(iter(marks)))) == 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Simulate three replicas of a partition.")
    parser.add_argument("--seeds", type=int, default=300, help="number of seeds")
    parser.add_argument("--jobs", type=int, default=1, choices=[1], help="processes")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    for seed in range(options.seeds):
        try:
            trio.run(Simulation(seed).run, STEPS)
        except Exception as error:  # noqa: BLE001 (whatever a bug causes)
            print(f"FAILED seed {seed}: {type(error).__name__}: {error}")
            return 1
    print(f"{options.seeds} seeds, none failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
