"""A simulated quorum: nodes, their disks, the network and time.

Every node has a driver like the real one: effects are carried out in order, syncs take time, and inputs arrive
meanwhile. A quorum is static, or dynamic from the start or from an upgrade on: then an operator adds and removes
voters, and replaces disks, as long as a majority of every set of voters in any log is there. All random choices come
from the seed, so that a seed reproduces a run.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from support.raft_settings import raft_settings

from minikafka.controller.raft.effects import (
    Committed,
    Deposed,
    Effect,
    Elected,
    Follow,
    Installed,
    Persist,
    SendRequest,
    SendResponse,
    Sync,
)
from minikafka.controller.raft.messages import Request, Response, request_from_map, response_from_map
from minikafka.controller.raft.raft import Raft
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.role_transitions import Role
from minikafka.controller.raft.voter_history import Membership
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey, VoterSet
from minikafka.protocol.errors import KafkaError
from simulation.raft_checks import Checker, Violation
from simulation.raft_log import SimulatedLog
from simulation.raft_node import Disk, Network, Node, directory

SETTINGS = raft_settings(fetch_bytes_max=400, snapshot_bytes_max=40)


class World:
    """
    Args:
        seed: the seed of all random choices.
        voters, observers: their numbers.
        dynamic: whether the voters are those of a bootstrap checkpoint, not of the settings.
        trace: called with the lines of the trace.
    """

    def __init__(
        self,
        seed: int | str,
        *,
        voters: int,
        observers: int = 0,
        dynamic: bool = False,
        network: Network | None = None,
        sync_delay: float = 0.0,
        clock_skew: float = 0.0,
        settings: RaftSettings = SETTINGS,
        trace: Callable[[str], None] | None = None,
    ) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.network = network or Network()
        self.sync_delay = sync_delay
        self.settings = settings
        self.checker = Checker()
        self.voters = tuple(range(1, voters + 1))
        self.trace = trace
        self.events_count = 0
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0
        self._appended = 0
        self.nodes: dict[int, Node] = {}
        self.replaced: dict[ReplicaKey, Disk] = {}
        first = VoterSet(Node(id_, voters=(), bootstrap=None, clock_rate=1.0).own for id_ in self.voters)
        bootstrap = Membership(1, first) if dynamic else None
        for id_ in range(1, voters + observers + 1):
            rate = 1 + clock_skew * (2 * self.random.random() - 1)
            self.nodes[id_] = Node(
                id_,
                voters=() if dynamic else self.voters,
                bootstrap=bootstrap if id_ <= voters else None,
                clock_rate=rate,
            )
        for node in self.nodes.values():
            self.start(node)

    # Time

    def at(self, time: float, function: Callable[..., None], *arguments: Any) -> None:
        self._serial += 1
        heappush(self._events, (time, self._serial, function, arguments))

    def step(self) -> None:
        """Run the next event."""
        self.now, _, function, arguments = heappop(self._events)
        self.events_count += 1
        function(*arguments)

    def run_until(self, time: float) -> None:
        """Run all events up to a time."""
        while self._events and self._events[0][0] <= time:
            self.step()
        self.now = time

    def log(self, text: str) -> None:
        if self.trace is not None:
            self.trace(f"{self.now:9.4f} {text}")

    # Nodes

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.raft is not None]

    @property
    def leader(self) -> Node | None:
        """The leader of the latest epoch that has one."""
        leaders = [node for node in self.running if node.raft is not None and node.raft.is_leader]
        return max(leaders, key=lambda node: node.raft.epoch if node.raft else 0, default=None)

    def start(self, node: Node) -> None:
        """Start a node from its disk."""
        disk = node.disk
        node.log = SimulatedLog(disk.log, self.checker.on_append)
        node.paused_until = self.now
        node.raft = Raft(
            node_id=node.id,
            voters=node.voters,
            own=node.own,
            log=node.log,
            election=disk.election,
            settings=self.settings,
            random=Random(self.random.getrandbits(32)),
            now=self._clock(node),
        )
        if not node.voters:
            node.raft.quorum_is_dynamic(self.nodes)  # its bootstrap servers are all nodes
        node.membership = node.raft.membership
        records = node.log.records
        node.applied, node.state = 0, 0
        if records.snapshot is not None:
            node.applied, node.state = records.snapshot.offset, int.from_bytes(records.snapshot_data[:4], "big")
            self.checker.on_snapshot(node.id, node.applied, node.state)
        node.high_watermark = node.raft.high_watermark
        self.log(f"{node} starts as {node.raft.role.value}: {disk.election}, log to {records.end_offset}")
        node.ticks_at = self.now
        self.at(self.now, self._tick, node, node.incarnation)

    def crash(self, node: Node) -> None:
        """Kill a node: unsynced changes are lost, and connections to it break."""
        node.raft = None
        node.incarnation += 1
        if node.queue and isinstance(node.queue[0], Persist) and self.random.random() < 0.5:
            node.disk.election = node.queue[0].state  # Its write was in progress.
        self.checker.on_crash(node.disk.election.epoch, node.log.records)
        node.queue.clear()
        node.carrying_out = False
        lost = node.disk.log.crash(self.random)
        if node.log.truncations:
            self.checker.seen("node that truncated its log")
        self.checker.seen("crash that loses unsynced records" if lost else "crash")
        self.log(f"{node} crashes; {lost} changes of its log are lost, on its disk is {node.disk.election}")
        self.break_connections(node, noticed=0.7)

    def break_connections(self, node: Node, *, noticed: float) -> None:
        """Report a failed node to the others, each with probability `noticed`."""
        for other in self.nodes.values():
            if other is not node and self.random.random() < noticed:
                self.at(self.now + self.random.random() * 0.01, self._unreachable, other, node.id)

    def pause(self, node: Node, seconds: float) -> None:
        """Pause the process (SIGSTOP), which continues later."""
        node.paused_until = max(node.paused_until, self.now + seconds)
        self.log(f"{node} pauses for {seconds:.3f} s")

    def jump(self, node: Node, seconds: float) -> None:
        """Jump the node's clock forwards."""
        node.clock_offset += seconds
        self.log(f"{node}'s clock jumps by {seconds:.3f} s")
        self._input(node, "tick", lambda raft, now: raft.tick(now))

    def append(self, node: Node, batches: int = 1) -> None:
        """Append through a node, if it is the leader."""
        raft = node.raft
        if raft is None or not raft.is_leader:
            return
        for _ in range(batches):
            self._appended += 1
            count = self._appended % 3 + 1
            batch = bytes([count]) + self._appended.to_bytes(4, "big")
            self._input(
                node, "append", lambda raft, now, batch=batch: raft.append(now, batch) if raft.is_leader else []
            )

    def snapshot(self, node: Node, *, trim: bool = True) -> None:
        """Write a snapshot of the node's applied state."""
        if node.raft is None or node.applied <= (node.log.records.snapshot or (0,))[0]:
            return
        self.log(f"{node} writes a snapshot at {node.applied}")
        self.checker.seen("snapshot")
        # Some are fetched in several parts.
        node.log.write_snapshot(node.applied, node.state.to_bytes(4, "big") * (1 + node.applied % 40), trim=trim)

    def replace_disk(self, node: Node) -> None:
        """Start a node with an empty disk, without voters in its settings: it is another replica from now on."""
        if node.raft is not None:
            self.crash(node)
        self.replaced[node.key] = node.disk
        node.key = ReplicaKey(node.id, directory(node.id, node.key.directory_id[2] + 1))
        node.voters, node.disk = (), Disk()
        node.high_watermark = 0
        self.log(f"{node} has an empty disk: {node.key}")
        self.checker.seen("disk replaced")
        self.start(node)

    def change_voters(self, leader: Node, what: str, change: Callable[[Raft, float], list[Effect]]) -> bool:
        """An operator's request to a leader; returns whether it was accepted."""
        accepted = False

        def attempt(raft: Raft, now: float) -> list[Effect]:
            nonlocal accepted
            try:
                effects = change(raft, now)
            except KafkaError as error:
                self.log(f"{leader} refuses: {error}")
                return []
            accepted = True
            return effects

        self._input(leader, what, attempt)
        if accepted:
            self.checker.seen(what)
        return accepted

    def can_lose(self, key: ReplicaKey, *, removed: bool = False) -> bool:
        """Whether every set of voters in any log keeps a majority of replicas that exist without this one.

        Args:
            removed: the set of the leader without this voter must have one too.
        """
        there = {node.key for node in self.nodes.values()} - ({key} if not removed else set())
        logs = [node.log.history for node in self.nodes.values()]
        sets = {one.voters for log in logs for one in log.entries if one.voters is not None}
        if removed:
            sets = {voters.without(key.id) for voters in sets}
        return all(2 * sum(voter in there for voter in voters.keys) > len(voters) for voters in sets)

    def resign(self, node: Node) -> None:
        self._input(node, "resign", lambda raft, now: raft.resign(now))

    # Inputs

    def _clock(self, node: Node) -> float:
        return self.now * node.clock_rate + node.clock_offset

    def _input(self, node: Node, what: object, call: Callable[[Raft, float], list[Effect]]) -> None:
        raft = node.raft
        if raft is None:
            return
        before, high_watermark = raft.role, raft.high_watermark
        if self.trace is not None:
            self.log(f"{node} {before.value} epoch {raft.epoch}: {what}")
        effects = call(raft, self._clock(node))
        after = raft.role
        if before is not after:
            self._watch_role(node, before, raft)
        if raft.membership is not node.membership:
            self._watch_voters(node, raft, before, high_watermark)
        if raft.high_watermark != node.high_watermark:
            self._watch_high_watermark(node, raft)
        node.queue.extend(effects)
        if not node.carrying_out:
            self._carry_out(node)
        if node.raft is raft:
            self._set_alarm(node, raft)

    def _watch_role(self, node: Node, before: Role, raft: Raft) -> None:
        self.checker.seen(f"{before.value} to {raft.role.value}")
        if raft.is_leader:
            self.checker.on_elected(node.key, raft.epoch, node.log.records)

    def _watch_voters(self, node: Node, raft: Raft, before: Role, high_watermark: int) -> None:
        earlier, node.membership = node.membership, raft.membership
        if self.trace is not None:
            self.log(f"{node}     {node.membership}")
        if before is Role.LEADER and node.membership.offset > earlier.offset:
            self.checker.on_voters(earlier, node.membership, high_watermark, raft.epoch)

    def _watch_high_watermark(self, node: Node, raft: Raft) -> None:
        after = raft.high_watermark
        self.checker.on_high_watermark(node.id, node.high_watermark, after, node.log.records)
        node.high_watermark = after
        if raft.is_leader:
            disks = [self._disk_of(voter.key).log.records for voter in raft.voter_set]
            self.checker.on_commit(node.id, raft.epoch, after, disks, len(disks))

    def _disk_of(self, key: ReplicaKey) -> Disk:
        """The disk of a voter, which may have been replaced since."""
        node = self.nodes[key.id]
        is_there = key.directory_id in (NO_DIRECTORY, node.key.directory_id)
        return node.disk if is_there else self.replaced[key]

    def _set_alarm(self, node: Node, raft: Raft) -> None:
        """Call `tick` at the deadline, which may be earlier than before."""
        at = max(self.now, (raft.deadline - node.clock_offset) / node.clock_rate) + 1e-9
        if at < node.ticks_at or node.ticks_at <= self.now:
            node.ticks_at = at
            self.at(at, self._tick, node, node.incarnation)

    def _tick(self, node: Node, incarnation: int) -> None:
        raft = node.raft
        if raft is None or incarnation != node.incarnation or self._is_paused(node, self._tick, node, incarnation):
            return
        if node.ticks_at > self.now:
            return
        if raft.deadline > self._clock(node):
            self._set_alarm(node, raft)
        else:
            self._input(node, "tick", Raft.tick)

    def _is_paused(self, node: Node, function: Callable[..., None], *arguments: Any) -> bool:
        """Whether the node is paused; if so, the call is repeated afterwards, in order."""
        if node.paused_until > self.now:
            self.at(node.paused_until, function, *arguments)
            return True
        return False

    def _unreachable(self, node: Node, peer: int) -> None:
        if not self._is_paused(node, self._unreachable, node, peer):
            self._input(node, f"n{peer} is unreachable", lambda raft, now: raft.unreachable(now, peer))

    def _failed(self, node: Node, incarnation: int, peer: int, request: Request) -> None:
        if self._is_paused(node, self._failed, node, incarnation, peer, request):
            return
        if incarnation == node.incarnation:
            self._input(node, f"no answer from n{peer}", lambda raft, now: raft.failed(now, peer, request))

    # The network

    def _send(self, sender: int, receiver: int, function: Callable[..., None], *arguments: Any) -> bool:
        """Deliver a message later, never, or twice."""
        network, random = self.network, self.random
        if (sender, receiver) in network.cut or (network.loss and random.random() < network.loss):
            return False
        self.at(self.now + random.expovariate(1 / network.delay), function, *arguments)
        if network.doubling and random.random() < network.doubling:
            self.at(self.now + 10 * random.expovariate(1 / network.delay), function, *arguments)
        return True

    def _ask(self, node: Node, peer: int, request: Request) -> None:
        if peer not in self.nodes:
            raise Violation(f"node {node.id} asks {peer}, who is nobody")
        sent = request_from_map(request.to_map()) if self.random.random() < self.network.encoding else request
        arrives = self._send(
            node.id, peer, self._request_arrives, self.nodes[peer], node.id, node.incarnation, request, sent
        )
        if not arrives and self.random.random() < 0.5:
            self.at(self.now + 0.05 + self.random.random(), self._failed, node, node.incarnation, peer, request)

    def _request_arrives(self, node: Node, sender: int, incarnation: int, request: Request, sent: Request) -> None:
        if self._is_paused(node, self._request_arrives, node, sender, incarnation, request, sent):
            return
        if self.trace is not None:
            self.log(f"{node} receives from n{sender}")
        self._meet(node, sender)
        token = (sender, incarnation, request)
        self._input(node, sent, lambda raft, now: raft.request(now, sender, sent, token))

    def _meet(self, node: Node, peer: int) -> None:
        """The handshake says whether the other node's quorum is dynamic."""
        if self.nodes[peer].membership.kraft_version and node.raft is not None and node.voters:
            node.raft.quorum_is_dynamic(self.nodes)

    def _answer(self, node: Node, token: Any, answer: Response) -> None:
        sender, incarnation, request = token
        if self.random.random() < self.network.encoding:
            answer = response_from_map(answer.to_map())
        self._send(node.id, sender, self._answer_arrives, self.nodes[sender], node.id, incarnation, request, answer)

    def _answer_arrives(self, node: Node, peer: int, incarnation: int, request: Request, answer: Response) -> None:
        if self._is_paused(node, self._answer_arrives, node, peer, incarnation, request, answer):
            return
        if incarnation != node.incarnation:
            return
        if self.trace is not None:
            self.log(f"{node} receives from n{peer}")
        self._meet(node, peer)
        self._input(node, answer, lambda raft, now: raft.response(now, peer, request, answer))

    # Effects

    def _carry_out(self, node: Node) -> None:
        """Carry out effects in order, until one takes time."""
        queue = node.queue
        while queue and not node.carrying_out:
            effect = queue[0]
            if isinstance(effect, Persist | Sync):
                node.carrying_out = True
                self._write(node, effect)
            else:
                queue.popleft()
                self._do(node, effect)

    def _write(self, node: Node, effect: Persist | Sync) -> None:
        mark = node.disk.log.mark
        if self.sync_delay and self.random.random() < 0.5:
            delay = self.random.expovariate(1 / self.sync_delay)
            self.at(self.now + delay, self._written, node, node.incarnation, effect, mark)
        else:
            self._complete(node, effect, mark)

    def _written(self, node: Node, incarnation: int, effect: Persist | Sync, mark: int) -> None:
        if self._is_paused(node, self._written, node, incarnation, effect, mark):
            return
        if incarnation == node.incarnation:
            self._complete(node, effect, mark)
            self._carry_out(node)

    def _complete(self, node: Node, effect: Persist | Sync, mark: int) -> None:
        if self.trace is not None:
            self.log(f"{node}     {effect}")
        node.queue.popleft()
        if isinstance(effect, Persist):
            node.carrying_out = False
            node.disk.election = effect.state
            self.checker.on_epoch(node.key, effect.state.epoch)
        else:
            node.disk.log.sync(mark)
            self._input(node, "synced", lambda raft, now: raft.synced(now, effect))
            node.carrying_out = False

    def _do(self, node: Node, effect: Effect) -> None:
        if self.trace is not None:
            self.log(f"{node}     {effect}")
        disk = node.disk
        if isinstance(effect, SendRequest):
            self.checker.on_sent(node.key, effect.request, disk.election, disk.log.records, None)
            self._ask(node, effect.peer, effect.request)
        elif isinstance(effect, SendResponse):
            request = effect.token[2]  # type: ignore[index]
            self.checker.on_sent(node.key, effect.message, disk.election, disk.log.records, request)
            self._answer(node, effect.token, effect.message)
        elif isinstance(effect, Committed):
            self._apply(node, effect.high_watermark)
        elif isinstance(effect, Installed):
            self.checker.seen("snapshot installed")
            node.applied, node.state = effect.snapshot.offset, int.from_bytes(effect.data[:4], "big")
            self.checker.on_snapshot(node.id, node.applied, node.state)
        else:
            assert isinstance(effect, Deposed | Elected | Follow)

    def _apply(self, node: Node, high_watermark: int) -> None:
        records = node.log.records
        for base, entry in zip(records.bases, records.entries, strict=True):
            if node.applied <= base < high_watermark:
                if base != node.applied:
                    raise Violation(f"node {node.id} has applied up to {node.applied}, and next comes {base}")
                node.state = self.checker.on_apply(node.id, base, entry, node.state)
                node.applied = base + entry.count

    # The state of the whole quorum

    def is_settled(self, beyond: int) -> bool:
        """Whether all nodes run, follow one leader, and have applied its whole log, which ends beyond an offset."""
        leader = self.leader
        if leader is None or leader.raft is None or leader.log.end_offset <= beyond:
            return False
        end = leader.log.end_offset
        return all(
            node.raft is not None and node.raft.leader_id == leader.id and node.applied == end == node.log.end_offset
            for node in self.nodes.values()
        )
