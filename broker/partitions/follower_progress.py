"""`LeaderState`: a leader's view of its followers: their progress, the high watermark, and the ISR. Pure.

A follower reports its log end offset with the offset that it fetches. The high watermark is the lowest log end offset
of the in-sync replicas; followers that have caught up and may enter the ISR count too. While the ISR is smaller than
`min.insync.replicas` the high watermark stays. The controller decides about the ISR (AlterPartition). While a proposal
is pending, the *maximal ISR* counts: the replicas in sync and those that may enter. Whatever the controller answers,
committed records are then on every replica that may become leader (KIP-497).

Source: Kafka's `Replica`, `ReplicaState`, `Partition.maybeIncrementLeaderHW`, `isReplicaIsrEligible` (KIP-841, KIP-903,
KIP-966).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from minikafka.controller.metadata.image import PartitionState
from minikafka.controller.metadata.records import BrokerRecord
from minikafka.protocol.settings.dataclass_fields import setting_field
from minikafka.protocol.settings.registry import NODE_SETTINGS
from minikafka.storage.directories.directory_ids import UNASSIGNED, is_online

NEVER_MS = -(1 << 62)
UNKNOWN = -1
NO_BROKER_EPOCH = -1
"""Fetch requests before version 15 have no broker epoch."""


@dataclass(slots=True)
class Follower:
    """The progress of one follower in this leader epoch. Times are of a steady clock, in milliseconds.

    Attributes:
        end_offset: The follower's log end offset, from its last fetch; -1 before the first fetch.
        log_start_offset: The follower's log start offset, from its last fetch.
        leader_end_offset: The leader's log end offset at that fetch.
        last_caught_up_ms: When the follower's log last ended where the leader's log did.
        broker_epoch: The broker epoch of the follower's last fetch; None before the first fetch.
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
        """Update the progress from a fetch at `offset`.

        A follower that has the whole log is caught up as of now. A follower that has all records that the log had at
        its last fetch is caught up as of that fetch: so a follower slightly behind a busy leader stays in sync.
        """
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
        """Whether the follower has the whole log, or had it at most `lag_ms_max` ago."""
        return self.end_offset == leader_end_offset or now_ms - self.last_caught_up_ms <= lag_ms_max


def _steady_zero() -> int:
    return 0


def _no_brokers() -> Mapping[int, BrokerRecord]:
    return {}


@dataclass(slots=True, frozen=True)
class ReplicaEnvironment:
    """The clock, brokers and settings that partitions use; all partitions of a node share one object.

    Attributes:
        steady_ms: A monotonic clock, for the lag of followers.
        brokers: The registered brokers of the current image.
        lag_ms_max: `replica.lag.time.max.ms`.
    """

    steady_ms: Callable[[], int] = _steady_zero
    brokers: Callable[[], Mapping[int, BrokerRecord]] = _no_brokers
    lag_ms_max: int = setting_field(NODE_SETTINGS["replica.lag.time.max.ms"])


@dataclass(slots=True, frozen=True)
class IsrProposal:
    """A proposed ISR, for AlterPartition.

    Attributes:
        isr: (node id, broker epoch) of each member (KIP-903).
        partition_epoch: The partition epoch that the proposal is based on.
    """

    isr: tuple[tuple[int, int], ...]
    leader_epoch: int
    partition_epoch: int

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The members of the proposed ISR."""
        return tuple(node_id for node_id, _ in self.isr)


class LeaderState:
    """The replicas of a partition in one leader epoch, as its leader sees them.

    Attributes:
        followers: All replicas except the leader, by node id.
        isr: The committed ISR, including the leader.
        pending: The proposal that the controller has not answered; None without one.

    Invariant: at most one proposal is pending; `maximal_isr` then contains every ISR that may result.
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
        self._directories: dict[int, bytes] = {}
        self.adopt(state, environment.steady_ms())

    def adopt(self, state: PartitionState, now_ms: int) -> None:
        """Apply a committed state of this leader epoch; this ends a proposal that is based on an older state."""
        assert state.leader_epoch == self._leader_epoch, "a new leader epoch needs a new LeaderState"
        if state.partition_epoch <= self._partition_epoch:
            return
        self._partition_epoch = state.partition_epoch
        self.isr = state.isr
        self.pending = None
        self._directories = {node_id: state.directory(node_id) for node_id in state.replicas}
        others = [node_id for node_id in state.replicas if node_id != self._node_id]
        self.followers = {node_id: self.followers.get(node_id) or Follower(node_id) for node_id in others}
        for node_id in state.isr:
            follower = self.followers.get(node_id)
            if follower is not None and follower.last_caught_up_ms == NEVER_MS:
                follower.last_caught_up_ms = now_ms  # The lag counts from the election.

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and the members of a pending proposal."""
        if self.pending is None:
            return self.isr
        return (*self.isr, *(node_id for node_id in self.pending.node_ids if node_id not in self.isr))

    def min_isr(self, configured: int) -> int:
        """`min.insync.replicas`, at most the number of replicas."""
        return min(configured, len(self.followers) + 1)

    def committable_offset(self, leader_end_offset: int, min_isr: int, now_ms: int) -> int | None:
        """Return the new high watermark; None while the ISR is smaller than `min.insync.replicas` (KIP-966).

        A follower that has caught up and is about to enter the ISR counts too: otherwise a leader that appends without
        pause would stay ahead of it for ever.
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
        """Mark followers that have the whole log as caught up: their fetches wait, and report no progress meanwhile."""
        for follower in self.followers.values():
            if follower.end_offset == end_offset:
                follower.last_caught_up_ms = now_ms

    # -- ISR ------------------------------------------------------------------------------------------

    def is_stale(self, node_id: int, broker_epoch: int) -> bool:
        """Whether a fetch comes from an earlier incarnation of a broker (KIP-903), or has no broker epoch.

        All brokers of minikafka send a broker epoch; other senders are not trusted to be brokers.
        """
        broker = self._brokers().get(node_id)
        return broker_epoch == NO_BROKER_EPOCH or (broker is not None and broker_epoch < broker.epoch)

    def may_enter_isr(self, follower: Follower, leader_end_offset: int, high_watermark: int, now_ms: int) -> bool:
        """Whether a follower may enter the ISR: it has all committed records, and all from before this leader epoch.

        The high watermark of a new leader may lag behind the records that earlier leaders committed; therefore the
        second condition (KAFKA-7128). The follower must also have fetched lately: while the ISR is smaller than
        `min.insync.replicas` nothing is committed, so that a follower without recent fetches could pass both
        conditions. A follower that has the whole log need not have fetched lately: a fetch session leaves out unchanged
        partitions.
        """
        return (
            self.pending is None
            and follower.node_id not in self.isr
            and (follower.end_offset == leader_end_offset or now_ms - follower.last_fetch_ms <= self._lag_ms_max)
            and follower.end_offset >= max(high_watermark, self.epoch_start_offset)
            and self._is_isr_eligible(follower)
        )

    def any_may_enter_isr(self, leader_end_offset: int, high_watermark: int, now_ms: int) -> bool:
        """Whether any follower may enter the ISR: a follower may have caught up while a proposal was pending."""
        followers = self.followers.values()
        return any(self.may_enter_isr(one, leader_end_offset, high_watermark, now_ms) for one in followers)

    def _is_isr_eligible(self, follower: Follower) -> bool:
        """Whether the state of a follower's broker allows the follower to enter the ISR.

        The broker must be unfenced and not shutting down. It must still be the incarnation that fetched, since a broker
        may have lost records after a restart (KIP-841, KIP-903). The follower's data directory must be online
        (KIP-858).
        """
        broker = self._brokers().get(follower.node_id)
        if broker is None or broker.fenced or broker.in_controlled_shutdown or follower.broker_epoch is None:
            return False
        return follower.broker_epoch == broker.epoch and self._has_directory(broker)

    def _has_directory(self, broker: BrokerRecord) -> bool:
        return is_online(self._directories.get(broker.node_id, UNASSIGNED), broker.log_dirs)

    def out_of_sync_replicas(self, leader_end_offset: int, now_ms: int) -> list[int]:
        """The in-sync followers that have not caught up for `replica.lag.time.max.ms`."""
        return [
            node_id
            for node_id in self.isr
            if (follower := self.followers.get(node_id)) is not None
            and not follower.is_caught_up(leader_end_offset, now_ms, self._lag_ms_max)
        ]

    def propose(
        self, leader_end_offset: int, high_watermark: int, now_ms: int, *, may_shrink: bool = True
    ) -> IsrProposal | None:
        """Make a proposal, which is then pending; None if the ISR is right or a proposal is pending.

        Args:
            may_shrink: Whether followers that lag leave the ISR.
        """
        if self.pending is not None:
            return None
        out = self.out_of_sync_replicas(leader_end_offset, now_ms) if may_shrink else []
        followers = self.followers.values()
        joining = [
            one.node_id for one in followers if self.may_enter_isr(one, leader_end_offset, high_watermark, now_ms)
        ]
        if not out and not joining:
            return None
        wanted = [*(node_id for node_id in self.isr if node_id not in out), *joining]
        self.pending = IsrProposal(self._with_epochs(wanted), self._leader_epoch, self._partition_epoch)
        return self.pending

    def reject(self, proposal: IsrProposal) -> None:
        """Drop a proposal that the controller rejected; the committed ISR stays."""
        if self.pending is proposal:
            self.pending = None

    def _with_epochs(self, node_ids: Iterable[int]) -> tuple[tuple[int, int], ...]:
        return tuple((node_id, self._epoch_of(node_id)) for node_id in node_ids)

    def _epoch_of(self, node_id: int) -> int:
        """Return the broker epoch of an ISR member as of its last fetch, not of a later registration."""
        if node_id == self._node_id:
            broker = self._brokers().get(node_id)
            return NO_BROKER_EPOCH if broker is None else broker.epoch
        follower = self.followers.get(node_id)
        return NO_BROKER_EPOCH if follower is None or follower.broker_epoch is None else follower.broker_epoch

    # -- log start offsets ----------------------------------------------------------------------------------------

    def low_watermark(self, leader_start_offset: int) -> int:
        """The lowest log start offset of the live replicas (KIP-107)."""
        starts = [
            follower.log_start_offset
            for follower in self.followers.values()
            if (broker := self._brokers().get(follower.node_id)) is not None
            and not broker.fenced
            and self._has_directory(broker)
        ]
        return min([leader_start_offset, *starts])
