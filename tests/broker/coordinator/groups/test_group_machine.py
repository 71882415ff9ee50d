"""State machine test: clients join, leave, crash and time out in any order; the coordinator crashes and appends fail.

Invariants: no partition belongs to two members of a generation, the log agrees with the state in memory, committed
offsets do not change, and after a quiet period all live members are in one Stable generation.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.coordinator_bench import GROUP, Bench

from minikafka.broker.coordinator.groups.offsets.offset_commits import commit_offsets
from minikafka.broker.coordinator.groups.state.classic_group_states import EMPTY, STABLE
from minikafka.protocol.errors import ErrorCode, NotEnoughReplicasError
from minikafka.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

PARTITIONS = range(8)
PROTOCOLS = (
    (("range", b"r"), ("sticky", b"s")),
    (("range", b"r2"), ("sticky", b"s")),
    (("sticky", b"s2"), ("range", b"r")),
)
"""Everybody knows both: after a fail-over only the chosen one is known of a member; who lacks that one is refused."""
SESSION_MS = 10_000
QUIET_S = 700
"""Longer than the coordinator waits for the JoinGroup of a new member."""


@dataclass
class Client:
    """A consumer as it sees itself.

    Attributes:
        forgotten: The coordinator has crashed since, and may not have written the generation before.
    """

    name: str
    instance: str | None
    version: int
    protocols: tuple[tuple[str, bytes], ...]
    member_id: str = ""
    generation: int = -1
    leads: list[str] = field(default_factory=list)
    joining: Any = None
    syncing: Any = None
    synced: bool = False
    forgotten: bool = False

    @property
    def waits(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def start_over(self, *, keep_id: bool) -> None:
        self.generation, self.synced, self.forgotten, self.leads = -1, False, False, []
        self.joining = self.syncing = None
        if not keep_id:
            self.member_id = ""


class GroupMachine(RuleBasedStateMachine):
    """Rules are what clients, time and machines can do.

    Attributes:
        owners: By generation, the client of each partition.
        replaced: Static members that are gone, each with the one that came in its place, while the coordinator stays.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.clients: list[Client] = []
        self.came = 0
        self.owners: dict[int, dict[int, str]] = {}
        self.committed: dict[int, int] = {}
        self.replaced: list[tuple[Client, Client]] = []

    # -- clients ---------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(static=st.booleans(), version=st.sampled_from([3, 9]), protocols=st.sampled_from(PROTOCOLS))
    def somebody_comes(self, static: bool, version: int, protocols: Any) -> None:
        self.came += 1
        name = f"client-{self.came}"
        client = Client(name, name if static else None, 9 if static else version, protocols)
        self.clients.append(client)
        self.join(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def somebody_joins_again(self, which: int) -> None:
        client = self.clients[which % len(self.clients)]
        if not client.waits:
            self.join(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def somebody_takes_the_next_step(self, which: int) -> None:
        self.behave(self.clients[which % len(self.clients)])

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def somebody_leaves(self, which: int) -> None:
        client = self.clients.pop(which % len(self.clients))
        if client.member_id:
            self.bench.leave(client.member_id, instance=client.instance)
        self.read_answers()

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def somebody_dies(self, which: int) -> None:
        """Without a word; a static one comes back at once under its old name, knowing nothing."""
        client = self.clients.pop(which % len(self.clients))
        if client.instance is not None:
            again = Client(client.name, client.instance, 9, client.protocols)
            self.clients.append(again)
            self.join(again)
            self.replaced.append((client, again))

    @precondition(lambda self: self.replaced)
    @rule(which=st.integers(0, 9))
    def a_replaced_one_sends_a_heartbeat(self, which: int) -> None:
        """It is still there, and must not be taken for the one in its place."""
        old, new = self.replaced[which % len(self.replaced)]
        if old.member_id and (new.member_id or new.joining is not None):
            assert self.bench.heartbeat(old.member_id, old.generation, instance=old.instance) in GONE

    @precondition(lambda self: any(client.generation > 0 for client in self.clients))
    @rule(which=st.integers(0, 9))
    def requests_of_the_past_arrive(self, which: int) -> None:
        """They are of the generation before: no answer may be that of the present one, and nothing changes."""
        known = [one for one in self.clients if one.generation > 0 and not one.waits and not one.forgotten]
        if known:
            client = known[which % len(known)]
            past = client.generation - 1
            assert self.bench.heartbeat(client.member_id, past, instance=client.instance) in (
                *GONE, ErrorCode.ILLEGAL_GENERATION
            )  # fmt: skip
            ticket = self.bench.sync(client.member_id, past, {client.member_id: b"all"}, instance=client.instance)
            assert self.bench.replies[ticket].error_code in (*GONE, ErrorCode.ILLEGAL_GENERATION)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), protocols=st.sampled_from(PROTOCOLS))
    def somebody_changes_its_mind(self, which: int, protocols: Any) -> None:
        client = self.clients[which % len(self.clients)]
        if not client.waits:
            client.protocols = protocols
            self.join(client)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), partition=st.sampled_from(PARTITIONS), offset=st.integers(0, 1000))
    def somebody_commits(self, which: int, partition: int, offset: int) -> None:
        client = self.clients[which % len(self.clients)]
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=client.generation,
            member_id=client.member_id,
            group_instance_id=client.instance,
        )
        part = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        request.topics = [OffsetCommitRequestTopic(name="t", partitions=[part])]
        self.bench.refusal = None
        reply = self.bench.ask(lambda builder, ticket: commit_offsets(builder, request, 8, ticket))
        if not reply.topics[0].partitions[0].error_code:
            self.committed[partition] = offset

    # -- the world -------------------------------------------------------------------------------------------

    @rule(elapsed_ms=st.sampled_from([1, 500, 4_000, 11_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.bench.refusal = None
        self.bench.pass_time(elapsed_ms)
        self.read_answers()

    @rule()
    def the_coordinator_crashes(self) -> None:
        self.bench.crash()
        self.replaced.clear()
        for client in self.clients:
            client.forgotten = not client.synced
            if client.waits:
                client.start_over(keep_id=True)

    @rule()
    def the_log_will_refuse(self) -> None:
        self.bench.refusal = NotEnoughReplicasError()

    # -- what a client does ----------------------------------------------------------------------------------

    def join(self, client: Client) -> None:
        client.start_over(keep_id=True)
        client.joining = self.bench.join(
            client.member_id,
            instance=client.instance,
            version=client.version,
            protocols=client.protocols,
            session_ms=SESSION_MS,
            client=client.name,
        )
        self.read_answers()

    def behave(self, client: Client) -> None:
        """What a consumer would do next."""
        if client.waits:
            return
        if client.generation < 0:
            self.join(client)
        elif not client.synced:
            shares = {name: bytes(PARTITIONS[i :: len(client.leads)]) for i, name in enumerate(client.leads)}
            client.syncing = self.bench.sync(
                client.member_id, client.generation, shares, instance=client.instance
            )
        else:
            error = self.bench.heartbeat(client.member_id, client.generation, instance=client.instance)
            if error:
                client.start_over(keep_id=error == ErrorCode.REBALANCE_IN_PROGRESS)
                self.join(client)
        self.read_answers()

    def read_answers(self) -> None:
        for client in self.clients:
            if client.joining in self.bench.replies:
                self.joined(client, self.bench.replies[client.joining])
            if client.syncing in self.bench.replies:
                self.synced(client, self.bench.replies[client.syncing])

    def joined(self, client: Client, reply: Any) -> None:
        client.joining = None
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
            self.join(client)
        elif reply.error_code:
            client.start_over(keep_id=reply.error_code in RETRIED)
        else:
            client.member_id, client.generation = reply.member_id, reply.generation_id
            client.leads = [member.member_id for member in reply.members]
            assert bool(client.leads) == (reply.leader == reply.member_id)

    def synced(self, client: Client, reply: Any) -> None:
        client.syncing = None
        if reply.error_code:
            client.start_over(keep_id=reply.error_code in RETRIED)
            return
        client.synced = True
        owners = self.owners.setdefault(client.generation, {})
        for partition in reply.assignment:
            assert owners.setdefault(partition, client.name) == client.name, "one partition, two members"

    # -- what always holds -----------------------------------------------------------------------------------

    @invariant()
    def the_log_says_what_the_living_know(self) -> None:
        loaded = self.bench.reloaded()
        live = self.bench.state
        assert set(loaded.classic_groups) == set(live.classic_groups)
        for group_id, group in live.classic_groups.items():
            for partition in PARTITIONS:
                place = (group_id, "t", partition)
                assert loaded.offsets.get(*place) == live.offsets.get(*place)
            from_log = loaded.classic_groups[group_id]
            if group.state in (STABLE, EMPTY) and group.generation == from_log.generation:
                assert group.value() == from_log.value()
                assert group.state is from_log.state
            assert from_log.generation <= group.generation

    @invariant()
    def committed_offsets_stay(self) -> None:
        for partition, offset in self.committed.items():
            committed = self.bench.state.offsets.get(GROUP, "t", partition)
            assert committed is not None
            assert committed.offset == offset

    @invariant()
    def members_and_their_names_agree(self) -> None:
        for group in self.bench.state.classic_groups.values():
            static = {m.instance_id: m.member_id for m in group.members.values() if m.instance_id is not None}
            assert group.static_members == static
            assert all(name == member.member_id for name, member in group.members.items())
            assert not set(group.pending_joins) & set(group.members)
            assert group.size_bytes == sum(member.size_bytes for member in group.members.values())
            assert set(group.pending_syncs) <= set(group.members)
            assert (group.leader in group.members) if group.members else True
            waits_for_sync = [m for m in group.members.values() if m.syncing is not None]
            assert not waits_for_sync or str(group.state) == "CompletingRebalance"
            waits_to_join = [m for m in group.members.values() if m.joining is not None]
            assert not waits_to_join or str(group.state) == "PreparingRebalance"

    def teardown(self) -> None:
        """Quiet: everybody behaves and nothing breaks. Then all are Stable, or gone."""
        self.bench.refusal = None
        for _ in range(QUIET_S):
            for client in list(self.clients):
                self.behave(client)
            self.bench.pass_time(1_000)
            self.read_answers()
            if self.is_settled():
                return
        raise AssertionError(f"{self.bench.state.classic_groups.get(GROUP)} does not settle for {self.clients}")

    def is_settled(self) -> bool:
        group = self.bench.state.classic_groups.get(GROUP)
        if group is None:
            return not self.clients
        if not self.clients:
            return group.state is EMPTY
        everybody = {client.member_id for client in self.clients} == set(group.members)
        in_step = all(client.synced and client.generation == group.generation for client in self.clients)
        return (
            group.state is STABLE
            and everybody
            and in_step
            and len(self.owners[group.generation]) == len(PARTITIONS)
        )


RETRIED = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
)
"""After these a client goes on under the id it has."""
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)
"""What somebody hears who is no member any more."""

TestGroupMachine = GroupMachine.TestCase
TestGroupMachine.settings = settings(
    max_examples=100,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.shrink or "MUTATION_RUN" not in os.environ],
)


def test_after_a_crash_the_last_generation_that_was_written_is_the_present_one() -> None:
    machine = GroupMachine()
    machine.somebody_comes(protocols=PROTOCOLS[0], static=False, version=3)
    machine.somebody_takes_the_next_step(which=0)
    machine.somebody_changes_its_mind(protocols=PROTOCOLS[0], which=0)
    [client] = machine.clients
    assert (client.generation, client.synced) == (2, False)
    machine.the_coordinator_crashes()
    assert machine.bench.heartbeat(client.member_id, 1) == ErrorCode.NONE
    assert machine.bench.heartbeat(client.member_id, 2) == ErrorCode.ILLEGAL_GENERATION
    machine.requests_of_the_past_arrive(which=0)
