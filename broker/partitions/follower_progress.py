"""What a leader knows of its followers, and what follows from it: how far is committed, who is in sync. Pure.

A follower tells what it has by what it fetches: whoever asks for offset 7 has everything before 7. The high watermark
is the least end among the replicas in sync. Who is in sync is the controller's to decide (AlterPartition); while it is
being asked, those count who are in sync *or may become so*, the maximal set, so that whatever it answers, what was
committed is on every replica that may lead next (KIP-497).

Source: Kafka's `Replica`, `ReplicaState`, `Partition.maybeIncrementLeaderHW`, `isReplicaIsrEligible` (KIP-841, 903,
966).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from minikafka.controller.metadata.image import PartitionState
from minikafka.controller.metadata.records import BrokerRecord
from minikafka.protocol.settings.dataclass_fields import setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS

NEVER_MS = -(1 << 62)
UNKNOWN = -1
EPOCH_NOT_TOLD = -1
"""A fetch before version 15 does not say in which broker epoch its sender lives."""


@dataclass(slots=True)
class Follower:
    """One follower, as its leader knows it in this leader epoch. Times are of a steady clock, in ms.

    Attributes:
        end_offset: Of its log, by its last fetch; -1 before its first one.
        log_start_offset: Likewise, as it said.
        leader_end_offset: Where the leader's log ended at that fetch.
        last_caught_up_ms: When it last had all that the leader had.
        broker_epoch: Of the incarnation that fetched; None before the first fetch.
    """

    node_id: int
    end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    leader_end_offset: int = UNKNOWN
    last_fetch_ms: int = NEVER_MS
    last_caught_up_ms: int = NEVER_MS
    broker_epoch: int | None = None

    def fetched(
        self, offset: int, *, log_start_offset: int, leader_end_offset: int, now_ms: int, broker_epoch: int
    ) -> None:
        """It asked for `offset`. A follower is caught up as of now if it has all there is, as of its last fetch if it
        has all there was then: one that is always a little behind a busy leader is in sync all the same."""
        if offset >= leader_end_offset:
            self.last_caught_up_ms = now_ms
        elif offset >= self.leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.end_offset = offset
        self.log_start_offset = log_start_offset
        self.leader_end_offset = max(leader_end_offset, self.leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_ms_max: int) -> bool:
        """Whether it has everything, or had so not longer than `lag_ms_max` ago."""
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_ms_max


def _steady_zero() -> int:
    return 0


def _nobody() -> Mapping[int, BrokerRecord]:
    return {}


@dataclass(slots=True, frozen=True)
class ReplicaEnvironment:
    """What a partition is told about the world when it is made; one object for all partitions of a node.

    Attributes:
        steady_ms: A clock that never jumps: who lags is not for the clock on the wall to say.
        brokers: All that are registered, as the image has them now.
        lag_ms_max: `replica.lag.time.max.ms`.
    """

    steady_ms: Callable[[], int] = _steady_zero
    brokers: Callable[[], Mapping[int, BrokerRecord]] = _nobody
    lag_ms_max: int = setting_field(NODE_SETTINGS["replica.lag.time.max.ms"])


@dataclass(slots=True, frozen=True)
class IsrProposal:
    """A change of the in-sync replicas that the controller is asked for.

    Attributes:
        isr: Who shall be in sync, each with the broker epoch that the leader means (KIP-903).
        partition_epoch: On which state of the partition it builds.
    """

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int

    @property
    def node_ids(self) -> tuple[int, ...]:
        """Who shall be in sync."""
        return tuple(node_id for node_id, _ in self.isr)


class LeaderState:
    """All replicas of a partition, as its leader sees them in one leader epoch.

    Attributes:
        followers: By node id; all replicas but the leader.
        isr: In sync, as committed; the leader among them.
        pending: What the controller has been asked for and has not answered.

    Invariant: at most one proposal is pending; while it is, `maximal_isr` is never less than what may become of it.
    """

    def __init__(
        self,
        node_id: int,
        state: PartitionState,
        *,
        epoch_start_offset: int,
        environment: ReplicaEnvironment,
    ) -> None:
        self.followers: dict[int, Follower] = {}
        self.isr: tuple[int, ...] = ()
        self.pending: IsrProposal | None = None
        self.epoch_start_offset = epoch_start_offset
        self._node_id = node_id
        self._leader_epoch = state.leader_epoch
        self._partition_epoch = -1
        self._lag_ms_max = environment.lag_ms_max
        self._brokers = environment.brokers
        self.adopt(state, environment.steady_ms())

    def adopt(self, state: PartitionState, now_ms: int) -> None:
        """Take over what was committed in this leader epoch; it answers whatever was pending on an older state."""
        assert state.leader_epoch == self._leader_epoch, "another leadership has replicas of its own"
        if state.partition_epoch <= self._partition_epoch:
            return
        self._partition_epoch = state.partition_epoch
        self.isr = state.isr
        self.pending = None
        others = [node_id for node_id in state.replicas if node_id != self._node_id]
        self.followers = {node_id: self.followers.get(node_id) or Follower(node_id) for node_id in others}
        for node_id in state.isr:
            follower = self.followers.get(node_id)
            if follower is not None and follower.last_caught_up_ms == NEVER_MS:
                follower.last_caught_up_ms = now_ms  # It has its full time from the election on.

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """Those in sync and those who may have become so without our knowing."""
        if self.pending is None:
            return self.isr
        return (*self.isr, *(node_id for node_id in self.pending.node_ids if node_id not in self.isr))

    def min_isr(self, configured: int) -> int:
        """How many must be in sync; more than there are replicas cannot be asked for."""
        return min(configured, len(self.followers) + 1)

    def committable_offset(self, leader_end_offset: int, min_isr: int, now_ms: int) -> int | None:
        """Up to where everything is committed; None while too few are in sync for anything new to be (KIP-966).

        A replica that has caught up and is about to be let in counts too: a leader that writes without pause would
        otherwise stay ahead of it for ever.
        """
        if len(self.isr) < self.min_isr(min_isr):
            return None
        least, isr = leader_end_offset, self.isr if self.pending is None else self.maximal_isr
        for follower in self.followers.values():
            if follower.end_offset < least and (
                follower.node_id in isr
                or (
                    follower.is_caught_up(leader_end_offset, now_ms, self._lag_ms_max)
                    and self._is_isr_eligible(follower)
                )
            ):
                least = follower.end_offset
        return least

    def before_append(self, end_offset: int, now_ms: int) -> None:
        """Who has everything has caught up as of now: a follower whose fetch is waiting has not said so for a while."""
        for follower in self.followers.values():
            if follower.end_offset == end_offset:
                follower.last_caught_up_ms = now_ms

    # -- who is in sync ------------------------------------------------------------------------------------------

    def is_stale(self, node_id: int, broker_epoch: int) -> bool:
        """Whether a fetch was sent by an incarnation of a broker that has registered anew since (KIP-903), or by
        somebody who does not say: our brokers do, and nobody is believed who merely claims to be one."""
        broker = self._brokers().get(node_id)
        return broker_epoch == EPOCH_NOT_TOLD or (broker is not None and broker_epoch < broker.epoch)

    def may_enter_isr(self, follower: Follower, high_watermark: int) -> bool:
        """Whether a follower may come in: it has all that is committed, and all from before this leadership.

        The latter because the new leader's high watermark may still lag behind what earlier leaders committed
        (KAFKA-7128).
        """
        return (
            self.pending is None
            and follower.node_id not in self.isr
            and follower.end_offset >= max(high_watermark, self.epoch_start_offset)
            and self._is_isr_eligible(follower)
        )

    def any_may_enter_isr(self, high_watermark: int) -> bool:
        """Whether any follower may come in: one that caught up while a proposal was pending has no reason
        to ask again."""
        return any(self.may_enter_isr(follower, high_watermark) for follower in self.followers.values())

    def _is_isr_eligible(self, follower: Follower) -> bool:
        """Alive, not about to go, and the same incarnation that fetched: one that has rebooted since may have lost
        what it had (KIP-841, KIP-903)."""
        broker = self._brokers().get(follower.node_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown or follower.broker_epoch is None:
            return False
        return follower.broker_epoch == broker.epoch

    def out_of_sync_replicas(self, leader_end_offset: int, now_ms: int) -> list[int]:
        """Those in sync who have not caught up for `replica.lag.time.max.ms`."""
        return [
            node_id
            for node_id in self.isr
            if (follower := self.followers.get(node_id)) is not None
            and not follower.is_caught_up(leader_end_offset, now_ms, self._lag_ms_max)
        ]

    def propose(self, leader_end_offset: int, high_watermark: int, now_ms: int) -> IsrProposal | None:
        """What the controller should be asked for, pending from now on; None: nothing, or something is already."""
        if self.pending is not None:
            return None
        out = self.out_of_sync_replicas(leader_end_offset, now_ms)
        joining = [one.node_id for one in self.followers.values() if self.may_enter_isr(one, high_watermark)]
        if not out and not joining:
            return None
        wanted = [*(node_id for node_id in self.isr if node_id not in out), *joining]
        self.pending = IsrProposal(self._with_epochs(wanted), self._leader_epoch, self._partition_epoch)
        return self.pending

    def refused(self, proposal: IsrProposal) -> None:
        """The controller certainly did not do what was proposed; what is committed stays."""
        if self.pending is proposal:
            self.pending = None

    def _with_epochs(self, node_ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
        return tuple((node_id, self._epoch_of(node_id)) for node_id in node_ids)

    def _epoch_of(self, node_id: int) -> int:
        """The epoch by which the leader knows a member: that of its fetches, not whatever it has registered since."""
        if node_id == self._node_id:
            broker = self._brokers().get(node_id)
            return EPOCH_NOT_TOLD if broker is None else broker.epoch
        follower = self.followers.get(node_id)
        return EPOCH_NOT_TOLD if follower is None or follower.broker_epoch is None else follower.broker_epoch

    # -- where logs start ----------------------------------------------------------------------------------------

    def low_watermark(self, leader_start_offset: int) -> int:
        """What even the last of the live replicas has deleted (KIP-107)."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if (broker := self._brokers().get(follower.node_id)) is not None and not broker.fenced
        ]
        return min([leader_start_offset, *starts])
