"""State machine test of a group that moves between the protocols: members of both come, go, die and are late; topics
grow; the coordinator moves.

Invariants: a decision that converts the group keeps the partitions of each member that stays, never lowers its epoch,
and is one that `group.consumer.migration.policy` allows; no partition is with two members; a coordinator that reads the
log has the same group. After a quiet period each partition has an owner, in equal shares among all who are let in, and
a group of classic members alone is a classic one if it may be.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.coordinator_bench import GROUP
from support.migration_clients import ClassicClient, ConsumerClient, MigrationBench, Partition, partitions_of

from minikafka.broker.coordinator.groups.group_settings import MigrationPolicy
from minikafka.broker.coordinator.groups.group_shard import GroupShard
from minikafka.broker.coordinator.groups.state.classic_group import ClassicGroup
from minikafka.broker.coordinator.groups.state.classic_group_states import STABLE
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup, ConsumerGroupState
from minikafka.controller.metadata.image import Image
from minikafka.protocol.errors import ErrorCode

TOPICS = ("t", "u")
PARTITIONS_MAX = 6
CLASSIC, CONSUMER = "classic", "consumer"
QUIET_ROUNDS = 40
KEPT_ID = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
"""After these a classic client joins again under the id that it has."""
GONE = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND)


class View(NamedTuple):
    """A group, whichever protocol it has.

    Attributes:
        has: What the coordinator keeps for each member.
        targets: What each member is to have.
    """

    kind: str
    epoch: int
    has: dict[str, set[Partition]]
    targets: dict[str, set[Partition]]


def named(image: Image, partitions: Any) -> set[Partition]:
    return {(image.topics_by_id[topic_id].name, number) for topic_id, some in partitions.items() for number in some}


def view(state: GroupShard) -> View | None:
    classic, consumer = state.classic_groups.get(GROUP), state.consumer_groups.get(GROUP)
    if classic is not None:
        shares = {name: partitions_of(bytes(member.assignment)) for name, member in classic.members.items()}
        return View(CLASSIC, classic.generation, shares, shares)
    if consumer is None:
        return None
    has = {
        one.member_id: named(state.image, one.assigned) | named(state.image, one.revoking)
        for one in consumer.members.values()
    }
    targets = {name: named(state.image, consumer.targets.get(name, {})) for name in consumer.members}
    return View(CONSUMER, consumer.epoch, has, targets)


class WatchedBench(MigrationBench):
    """Compares the group before and after each decision.

    Attributes:
        conversions: How often the group with members became one of a kind.
    """

    def __init__(self, policy: MigrationPolicy) -> None:
        self.conversions: Counter[str] = Counter()
        super().__init__(TOPICS, policy)

    def carry_out(self, decision: Any) -> None:
        before = view(self.state)
        super().carry_out(decision)
        after = view(self.state)
        if before is None or after is None or not before.has or not after.has:
            return
        assert after.epoch >= before.epoch
        if before.kind == after.kind:
            return
        self.conversions[after.kind] += 1
        policy = self.settings.migration_policy
        assert policy.allows_upgrade if after.kind == CONSUMER else policy.allows_downgrade
        for name in before.has.keys() & after.has.keys():
            assert after.has[name] == (before.has if after.kind == CONSUMER else before.targets)[name], name


class MigrationMachine(RuleBasedStateMachine):
    """Rules are what members, time and machines can do."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: list[ClassicClient | ConsumerClient] = []
        self.came = 0
        self.counts = dict.fromkeys(TOPICS, 3)
        self.begin(MigrationPolicy.BIDIRECTIONAL)

    @initialize(policy=st.sampled_from([*MigrationPolicy, *[MigrationPolicy.BIDIRECTIONAL] * 4]))
    def begin(self, policy: MigrationPolicy) -> None:
        self.policy, self.bench = policy, WatchedBench(policy)
        for number, (name, count) in enumerate(self.counts.items(), 1):
            self.bench.set_topic(name, bytes(15) + bytes([number]), count)

    # -- members -------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.clients) < 5)
    @rule(classic=st.booleans())
    def somebody_comes(self, classic: bool) -> None:
        self.came += 1
        name = f"client-{self.came}"
        self.clients.append(ClassicClient(name) if classic else ConsumerClient(name))
        self.behave(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def somebody_takes_the_next_step(self, which: int) -> None:
        self.behave(self.clients[which % len(self.clients)])

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9), says=st.booleans())
    def somebody_goes(self, which: int, says: bool) -> None:
        client = self.clients.pop(which % len(self.clients))
        if says and isinstance(client, ConsumerClient):
            self.bench.consumer_heartbeat(client, -1)
        elif says and isinstance(client, ClassicClient) and client.member_id:
            self.bench.leave_group(client)
        self.read_answers()

    @rule(settled=st.booleans(), steps=st.integers(0, 6))
    def both_kinds_come(self, settled: bool, steps: int) -> None:
        """Classic members first, whose group is in some step of a rebalance when the other one comes."""
        for classic in (True, True, False):
            if not classic and settled:
                self.the_group_settles()
            if len(self.clients) < 5:
                self.somebody_comes(classic)
            for step in range(steps):
                self.somebody_takes_the_next_step(step)

    @rule(says=st.booleans())
    def all_of_the_consumer_protocol_go(self, says: bool) -> None:
        for at in reversed(range(len(self.clients))):
            if isinstance(self.clients[at], ConsumerClient):
                self.somebody_goes(at, says)

    @precondition(lambda self: self.clients)
    @rule(which=st.integers(0, 9))
    def a_heartbeat_of_the_past_arrives(self, which: int) -> None:
        client = self.clients[which % len(self.clients)]
        if isinstance(client, ClassicClient) and client.generation > 1:
            assert self.bench.classic_heartbeat(client, client.generation - 1) in (*KEPT_ID, *GONE)

    @rule(which=st.sampled_from(TOPICS))
    def a_topic_grows(self, which: str) -> None:
        """Leaders of classic groups see it, and have all join again."""
        self.counts[which] = min(self.counts[which] + 1, PARTITIONS_MAX)
        self.bench.set_topic(which, self.bench.image.topics[which].id, self.counts[which])
        for client in self.clients:
            if isinstance(client, ClassicClient) and not client.waits:
                client.start_over(keep_id=True)

    @rule(elapsed_ms=st.sampled_from([10, 1_100, 11_000, 21_000, 50_000]))
    def time_passes(self, elapsed_ms: int) -> None:
        self.bench.pass_time(elapsed_ms)
        self.read_answers()

    @rule()
    def the_coordinator_moves(self) -> None:
        self.bench.crash()
        for client in self.clients:
            if isinstance(client, ClassicClient) and client.waits:
                client.start_over(keep_id=True)

    # -- what clients do -----------------------------------------------------------------------------------------

    def behave(self, client: ClassicClient | ConsumerClient) -> None:
        if isinstance(client, ConsumerClient):
            self.beat(client)
        elif not client.waits:
            self.behave_as_classic(client)
        self.read_answers()

    def beat(self, client: ConsumerClient) -> None:
        if client.given is not None:
            client.owned, client.given = client.given, None
        answer = self.bench.consumer_heartbeat(client, client.epoch)
        if answer.error_code:
            assert answer.error_code in GONE, answer
            client.epoch, client.owned, client.given = 0, set(), None
            return
        assert answer.member_epoch >= client.epoch
        client.epoch = answer.member_epoch
        if answer.assignment is not None:
            topics = answer.assignment.topic_partitions
            client.given = named(self.bench.image, {bytes(one.topic_id): one.partitions for one in topics})

    def behave_as_classic(self, client: ClassicClient) -> None:
        if client.generation < 0:
            client.start_over(keep_id=True)
            client.joining = self.bench.join_group(client)
        elif not client.synced:
            every = sorted((name, number) for name, count in self.counts.items() for number in range(count))
            shares = {name: set(every[at :: len(client.leads)]) for at, name in enumerate(client.leads)}
            client.syncing = self.bench.sync_group(client, shares)
        elif error := self.bench.classic_heartbeat(client, client.generation):
            client.start_over(keep_id=error in KEPT_ID)

    def read_answers(self) -> None:
        for client in self.clients:
            if isinstance(client, ConsumerClient):
                continue
            while client.joining in self.bench.replies:
                self.joined(client, self.bench.replies[client.joining])
            if client.syncing in self.bench.replies:
                self.synced(client, self.bench.replies[client.syncing])

    def joined(self, client: ClassicClient, reply: Any) -> None:
        client.joining = None
        if reply.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = reply.member_id
            client.joining = self.bench.join_group(client)
        elif reply.error_code:
            client.start_over(keep_id=reply.error_code in KEPT_ID)
        else:
            client.member_id, client.generation = reply.member_id, reply.generation_id
            client.leads = [member.member_id for member in reply.members]

    def synced(self, client: ClassicClient, reply: Any) -> None:
        client.syncing = None
        if reply.error_code:
            client.start_over(keep_id=reply.error_code in KEPT_ID)
        else:
            client.synced, client.owned = True, partitions_of(bytes(reply.assignment))

    # -- when it has settled -------------------------------------------------------------------------------------

    @rule()
    def the_group_settles(self) -> None:
        for _ in range(QUIET_ROUNDS):
            self.let_one_join_where_nobody_notices()
            self.all_behave()
            self.bench.pass_time(3_000)
            self.read_answers()
        self.all_behave()
        group = view(self.bench.state)
        inside = [client for client in self.clients if group is not None and client.member_id in group.has]
        if group is None or not inside:
            assert not self.clients
            return
        assert group.has.keys() == {client.member_id for client in inside}
        assert all(client in inside or self.is_refused(client, group.kind) for client in self.clients)
        if self.policy.allows_downgrade and all(isinstance(client, ClassicClient) for client in inside):
            assert group.kind == CLASSIC
        every = {(name, number) for name, count in self.counts.items() for number in range(count)}
        assert set().union(*(client.owned for client in inside)) == every
        sizes = [len(client.owned) for client in inside]
        assert sum(sizes) == len(every)
        assert max(sizes) - min(sizes) <= 1
        before = group.epoch, [set(client.owned) for client in self.clients]
        self.all_behave()
        now = view(self.bench.state)
        assert now is not None
        assert (now.epoch, [client.owned for client in self.clients]) == before

    def let_one_join_where_nobody_notices(self) -> None:
        """Heartbeats of classic members compute no target: alone in a consumer group they wait for a JoinGroup.

        As in Kafka, where the policy does not let such a group become a classic one.
        """
        group = self.bench.state.consumer_groups.get(GROUP)
        if group is None or self.policy.allows_downgrade or group.state is not ConsumerGroupState.ASSIGNING:
            return
        if all(isinstance(client, ClassicClient) for client in self.clients if client.member_id in group.members):
            for client in self.clients:
                if isinstance(client, ClassicClient) and client.member_id in group.members and not client.waits:
                    client.start_over(keep_id=True)
                    return

    def is_refused(self, client: ClassicClient | ConsumerClient, kind: str) -> bool:
        """Whether the policy keeps a client out of a group of the other kind."""
        if isinstance(client, ClassicClient):
            return kind == CONSUMER and self.policy is MigrationPolicy.DISABLED
        return kind == CLASSIC and not self.policy.allows_upgrade

    def all_behave(self) -> None:
        for client in list(self.clients):
            self.behave(client)

    def teardown(self) -> None:
        self.the_group_settles()

    # -- what always holds ---------------------------------------------------------------------------------------

    @invariant()
    def a_partition_is_with_one_member(self) -> None:
        held = Counter(one for client in self.clients if self.is_current(client) for one in client.owned)
        assert not held or max(held.values()) == 1, held

    def is_current(self, client: ClassicClient | ConsumerClient) -> bool:
        """Whether the coordinator knows it: another one has been removed, and will notice."""
        classic = self.bench.state.classic_groups.get(GROUP)
        consumer = self.bench.state.consumer_groups.get(GROUP)
        if consumer is not None and (member := consumer.members.get(client.member_id)) is not None:
            epoch = client.generation if isinstance(client, ClassicClient) else client.epoch
            return member.epoch == epoch
        return classic is not None and client.member_id in classic.members

    @invariant()
    def the_log_has_all(self) -> None:
        again, live = self.bench.reloaded().find(GROUP), self.bench.state.find(GROUP)
        if live is None:
            assert again is None or again.is_empty, "an unknown member may have removed it"
        elif isinstance(live, ConsumerGroup):
            assert isinstance(again, ConsumerGroup)
            for name in ("epoch", "assignment_epoch", "members", "targets", "owners"):
                assert getattr(again, name) == getattr(live, name), name
        else:
            assert isinstance(live, ClassicGroup)
            assert isinstance(again, ClassicGroup)
            assert again.generation <= live.generation
            assert live.state is not STABLE or again.value() == live.value()


TestMigrationMachine = MigrationMachine.TestCase
TestMigrationMachine.settings = settings(
    max_examples=200,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[phase for phase in Phase if phase is not Phase.shrink or "MUTATION_RUN" not in os.environ],
)


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_policy_decides_in_which_direction_a_group_moves(policy: MigrationPolicy) -> None:
    machine = MigrationMachine()
    machine.begin(policy)
    for classic in (True, True, False):
        machine.somebody_comes(classic)
        machine.the_group_settles()
    assert machine.bench.conversions == ({CONSUMER: 1} if policy.allows_upgrade else {})
    machine.all_of_the_consumer_protocol_go(says=True)
    machine.the_group_settles()
    assert machine.bench.conversions[CLASSIC] == (policy is MigrationPolicy.BIDIRECTIONAL)


@pytest.mark.parametrize("policy", MigrationPolicy)
def test_the_policy_decides_what_becomes_of_classic_members_in_a_consumer_group(policy: MigrationPolicy) -> None:
    machine = MigrationMachine()
    machine.begin(policy)
    for classic in (False, True, True):
        machine.somebody_comes(classic)
        machine.the_group_settles()
    machine.all_of_the_consumer_protocol_go(says=True)
    machine.the_group_settles()
    assert machine.bench.conversions == ({CLASSIC: 1} if policy.allows_downgrade else {})
