"""The invariants of a quorum, which must hold at every moment; a broken one raises `Violation`.

Checked at each event by a checker that sees all nodes and remembers everything:

- ElectionSafety: an epoch has one leader, and a node votes for one candidate in an epoch.
- LogMatching: a batch of some offset and epoch is the same on all nodes, and follows the same batch.
- Durability: no epoch, vote or acknowledgement is sent before it is on the disk.
- MajorityHasIt: a committed record is on the disks of a majority.
- LeaderCompleteness: a newly elected leader has everything that was ever committed.
- StateMachineSafety: all nodes apply the same batch at an offset; a snapshot is the state that all nodes had at its
  offset.
- Monotony: high watermarks and epochs never decrease.
- SnapshotAtLogStart: records removed from a log are in a snapshot.
- OneVoterAtATime: a leader changes one voter, and only once the change before is committed, in an epoch in which it has
  committed a record.

A node is known by its id and its directory: with a new disk it is another one.

Sources: Ongaro's dissertation, figure 3.2; Kafka's `RaftEventSimulationTest`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from minikafka.controller.raft.messages import Fetch, Message, Vote, VoteResponse
from minikafka.controller.raft.voter_set import ReplicaKey

if TYPE_CHECKING:
    from minikafka.controller.raft.election_state import ElectionState
    from minikafka.controller.raft.voter_history import Membership
    from simulation.raft_log import Entry, Records


class Violation(AssertionError):
    """An invariant does not hold."""


class Checker:
    """
    Attributes:
        applied: by base offset, (entry, checksum of everything up to its end) when first applied.
        commits: by epoch, the high watermark of its leader. starts: by epoch, the offset of its first record.
        sometimes: how often each notable event was seen, to show that the simulation covers it.
    """

    def __init__(self) -> None:
        self.leaders: dict[int, ReplicaKey] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.written: dict[tuple[int, int], tuple[Entry, int]] = {}
        self.applied: dict[int, tuple[Entry, int]] = {}
        self.states: dict[int, int] = {0: 0}
        self.commits: dict[int, int] = {}
        self.starts: dict[int, int] = {}
        self.epochs: dict[ReplicaKey, int] = {}
        self.sometimes: dict[str, int] = {}

    def seen(self, what: str) -> None:
        self.sometimes[what] = self.sometimes.get(what, 0) + 1

    def on_append(self, base: int, previous_epoch: int, entry: Entry) -> None:
        known = self.written.setdefault((base, entry.epoch), (entry, previous_epoch))
        if known != (entry, previous_epoch):
            raise Violation(f"LogMatching: offset {base} of epoch {entry.epoch}: {known} and {(entry, previous_epoch)}")

    def on_crash(self, durable_epoch: int, records: Records) -> None:
        """Forget what a single voter appended before its new epoch was on disk: no other node has seen it."""
        for base, entry in zip(records.bases, records.entries, strict=True):
            if entry.epoch > durable_epoch:
                self.written.pop((base, entry.epoch), None)

    def on_elected(self, node: ReplicaKey, epoch: int, records: Records) -> None:
        self.seen("elected")
        self.starts[epoch] = records.bases[-1]
        other = self.leaders.setdefault(epoch, node)
        if other != node:
            raise Violation(f"ElectionSafety: epoch {epoch} has the leaders {other} and {node}")
        # A leader elected without knowledge of later leaders may lack what those have committed.
        committed_end = max((end for leader, end in self.commits.items() if leader < epoch), default=0)
        if records.end_offset < committed_end:
            raise Violation(f"LeaderCompleteness: {committed_end} is committed, {node} leads with {records.end_offset}")
        for base, entry in zip(records.bases, records.entries, strict=True):
            known = self.applied.get(base)
            if known is not None and known[0] != entry and base < committed_end:
                raise Violation(f"LeaderCompleteness: at {base} node {node} has {entry}, committed is {known[0]}")

    def on_epoch(self, node: ReplicaKey, epoch: int) -> None:
        if epoch < self.epochs.get(node, 0):
            raise Violation(f"Monotony: node {node} goes back from epoch {self.epochs[node]} to {epoch}")
        self.epochs[node] = epoch

    def on_sent(
        self, node: ReplicaKey, message: Message, durable: ElectionState, records: Records, asked: Message | None
    ) -> None:
        """A node sends a message; `asked` is the request if it is a response."""
        if message.epoch > durable.epoch:
            raise Violation(f"Durability: node {node} sends epoch {message.epoch}, its disk has {durable}")
        if isinstance(message, Vote) and not message.pre_vote:
            self._on_vote(node, message.epoch, ReplicaKey(node.id, message.candidate_directory), durable)
        elif isinstance(message, VoteResponse) and message.granted:
            assert isinstance(asked, Vote)
            if not asked.pre_vote:
                self._on_vote(node, asked.epoch, ReplicaKey(asked.candidate, asked.candidate_directory), durable)
        elif isinstance(message, Fetch) and message.fetch_offset > records.end_offset:
            raise Violation(
                f"Durability: node {node} acknowledges {message.fetch_offset}, its disk ends at {records.end_offset}"
            )

    def _on_vote(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, durable: ElectionState) -> None:
        other = self.votes.setdefault((voter, epoch), candidate)
        if other != candidate:
            raise Violation(f"ElectionSafety: node {voter} votes in epoch {epoch} for {other} and for {candidate}")
        if durable.epoch == epoch and (durable.voted_for, durable.voted_directory) != candidate:
            raise Violation(f"Durability: node {voter} votes for {candidate}, its disk has {durable}")

    @property
    def committed_end(self) -> int:
        return max(self.commits.values(), default=0)

    def on_voters(self, before: Membership, after: Membership, high_watermark: int, epoch: int) -> None:
        """The leader of an epoch has appended records of the voters, with this high watermark."""
        changed = set(before.voters.keys if before.voters else ()) ^ set(after.voters.keys if after.voters else ())
        if not changed or before.voters is None:
            return
        self.seen("voters changed")
        if len(changed) > 1:
            raise Violation(f"OneVoterAtATime: from {before.voters} to {after.voters}")
        if high_watermark <= max(before.offset, self.starts[epoch]):
            raise Violation(f"OneVoterAtATime: {after} is appended before {high_watermark} commits {before}")

    def on_commit(self, node: int, epoch: int, high_watermark: int, disks: list[Records], voters_count: int) -> None:
        """The high watermark of an epoch's leader moves; `disks` are those of the voters in force that are there."""
        self.commits[epoch] = high_watermark
        # By LogMatching, a disk with the last committed batch has everything before it.
        having = sum(1 for records in disks if self._has_committed(records, high_watermark))
        if having * 2 <= voters_count:
            raise Violation(f"MajorityHasIt: node {node} commits {high_watermark}, which {having} disks have")

    def _has_committed(self, records: Records, high_watermark: int) -> bool:
        if records.snapshot is not None and records.snapshot.offset >= high_watermark:
            return True
        if records.start_offset >= high_watermark:
            return True
        if records.end_offset < high_watermark:
            return False
        for base, entry in zip(reversed(records.bases), reversed(records.entries), strict=True):
            if base < high_watermark:
                known = self.applied.get(base)
                return known is None or known[0] == entry
        return False

    def on_apply(self, node: int, base: int, entry: Entry, state: int) -> int:
        """A node applies a committed batch to its state; returns the new state."""
        state = crc32(entry.payload, state ^ entry.epoch)
        known = self.applied.setdefault(base, (entry, state))
        if known != (entry, state):
            raise Violation(f"StateMachineSafety: node {node} applies {entry} at {base}, another applied {known[0]}")
        self.states[base + entry.count] = state
        return state

    def on_snapshot(self, node: int, offset: int, state: int) -> None:
        if self.states.get(offset) != state:
            raise Violation(f"StateMachineSafety: node {node} has another state at {offset} than the others")

    def on_high_watermark(self, node: int, before: int, after: int, records: Records) -> None:
        if after < before or after > records.end_offset:
            raise Violation(f"Monotony: n{node}'s high watermark goes from {before} to {after} of {records.end_offset}")
        snapshot = records.snapshot
        if records.start_offset and (snapshot is None or snapshot.offset < records.start_offset):
            raise Violation(f"SnapshotAtLogStart: n{node}'s log starts at {records.start_offset}, snapshot {snapshot}")
