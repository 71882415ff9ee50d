"""LeaderState: the high watermark and the ISR that follow from the followers' fetches."""

import pytest

from minikafka.broker.partitions.follower_progress import IsrProposal, LeaderState, ReplicaEnvironment
from minikafka.broker.partitions.preferred_read_replica import is_rack_aware, preferred_replica
from minikafka.controller.metadata.image import PartitionState
from minikafka.controller.metadata.records import BrokerRecord

LEADER, SECOND, THIRD = 1, 2, 3
EPOCH = 5
LAG_MS = 10_000


class Clock:
    """A steady clock that stands still."""

    ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def broker(node_id: int, *, epoch: int | None = None, fenced: bool = False, leaving: bool = False) -> BrokerRecord:
    rack = f"rack-{node_id}"
    return BrokerRecord(node_id, 10 + node_id if epoch is None else epoch, bytes(16), (), rack, fenced, leaving)


def state(*isr: int, partition_epoch: int = 0) -> PartitionState:
    return PartitionState(LEADER, EPOCH, partition_epoch, (LEADER, SECOND, THIRD), isr)


class Seen:
    """A leader's view; its log ends at `end`."""

    def __init__(self, *isr: int, end: int = 0, epoch_start: int = 0) -> None:
        self.clock = Clock()
        self.brokers = {node_id: broker(node_id) for node_id in (LEADER, SECOND, THIRD)}
        self.end = end
        environment = ReplicaEnvironment(self.clock, lambda: self.brokers, LAG_MS)
        self.leader_state = LeaderState(LEADER, state(*isr), epoch_start_offset=epoch_start, environment=environment)

    def fetched(self, node_id: int, offset: int, *, broker_epoch: int | None = None) -> None:
        self.leader_state.followers[node_id].fetched(
            offset,
            log_start_offset=0,
            leader_end_offset=self.end,
            now_ms=self.clock.ms,
            broker_epoch=self.brokers[node_id].epoch if broker_epoch is None else broker_epoch,
        )

    def committable_offset(self, min_isr: int = 1) -> int | None:
        return self.leader_state.committable_offset(self.end, min_isr, self.clock.ms)

    def propose(self, high_watermark: int = 0) -> IsrProposal | None:
        return self.leader_state.propose(self.end, high_watermark, self.clock.ms)

    def may_enter_isr(self, node_id: int, high_watermark: int = 0) -> bool:
        follower = self.leader_state.followers[node_id]
        return self.leader_state.may_enter_isr(follower, self.end, high_watermark, self.clock.ms)


def test_the_slowest_in_sync_replica_determines_the_high_watermark() -> None:
    seen = Seen(LEADER, SECOND, THIRD, end=10)
    assert seen.committable_offset() == -1, "nobody has fetched in this epoch yet"
    seen.fetched(SECOND, 7)
    seen.fetched(THIRD, 4)
    assert seen.committable_offset() == 4
    seen.fetched(THIRD, 10)
    assert seen.committable_offset() == 7


def test_a_replica_outside_the_isr_does_not_hold_back_the_high_watermark() -> None:
    seen = Seen(LEADER, SECOND, end=10)
    seen.fetched(SECOND, 8)
    assert seen.committable_offset() == 8


def test_a_caught_up_follower_about_to_enter_the_isr_counts_already() -> None:
    seen = Seen(LEADER, SECOND, end=5)
    seen.fetched(SECOND, 5)
    seen.fetched(THIRD, 5)
    seen.end = 9
    seen.fetched(SECOND, 9)
    assert seen.committable_offset() == 5
    seen.brokers[THIRD] = broker(THIRD, fenced=True)
    assert seen.committable_offset() == 9


def test_below_min_insync_replicas_nothing_is_committed() -> None:
    """KIP-966; more than there are replicas is never required."""
    seen = Seen(LEADER, end=5)
    assert seen.committable_offset(min_isr=2) is None
    assert seen.committable_offset(min_isr=1) == 5
    whole = Seen(LEADER, SECOND, THIRD, end=5)
    whole.fetched(SECOND, 5)
    whole.fetched(THIRD, 5)
    assert whole.committable_offset(min_isr=4) == 5


def test_while_a_proposal_is_pending_the_maximal_isr_counts() -> None:
    """KIP-497: it may have agreed without the leader knowing."""
    seen = Seen(LEADER, SECOND, end=5)
    seen.fetched(SECOND, 5)
    seen.fetched(THIRD, 5)
    proposal = seen.propose()
    assert proposal is not None
    assert proposal.isr == ((LEADER, 11), (SECOND, 12), (THIRD, 13))
    assert seen.leader_state.maximal_isr == (LEADER, SECOND, THIRD)
    seen.end = 8
    seen.fetched(SECOND, 8)
    seen.clock.ms += LAG_MS + 1
    assert seen.committable_offset() == 5
    seen.leader_state.reject(proposal)
    assert seen.committable_offset() == 8


def test_a_proposed_shrink_counts_only_once_committed() -> None:
    seen = Seen(LEADER, SECOND, THIRD, end=5)
    seen.fetched(SECOND, 5)
    seen.clock.ms += LAG_MS + 1
    seen.fetched(SECOND, 5)
    proposal = seen.propose()
    assert proposal is not None
    assert proposal.node_ids == (LEADER, SECOND)
    assert seen.committable_offset() == -1
    seen.leader_state.adopt(state(LEADER, SECOND, partition_epoch=1), seen.clock.ms)
    assert seen.leader_state.pending is None
    assert seen.committable_offset() == 5


def test_only_one_proposal_is_pending() -> None:
    seen = Seen(LEADER, end=5)
    seen.fetched(SECOND, 5)
    assert seen.propose() is not None
    seen.fetched(THIRD, 5)
    assert seen.propose() is None
    assert not seen.may_enter_isr(THIRD)


def test_a_newer_committed_state_ends_a_proposal() -> None:
    seen = Seen(LEADER, end=5)
    seen.fetched(SECOND, 5)
    proposal = seen.propose()
    seen.leader_state.adopt(state(LEADER), seen.clock.ms)
    assert seen.leader_state.pending is proposal, "outdated state"
    seen.leader_state.adopt(state(LEADER, partition_epoch=1), seen.clock.ms)
    assert seen.leader_state.pending is None


@pytest.mark.parametrize(("offset", "comes_in"), [(2, False), (3, False), (5, True), (6, True)])
def test_a_follower_enters_at_the_high_watermark_and_the_epoch_start(offset: int, comes_in: bool) -> None:
    """KAFKA-7128."""
    seen = Seen(LEADER, end=6, epoch_start=5)
    seen.fetched(SECOND, offset)
    assert seen.may_enter_isr(SECOND, high_watermark=3) is comes_in


@pytest.mark.parametrize(
    "record",
    [broker(SECOND, fenced=True), broker(SECOND, leaving=True), broker(SECOND, epoch=99)],
    ids=["fenced", "about to go", "registered anew since it fetched"],
)
def test_ineligible_brokers_do_not_enter_the_isr(record: BrokerRecord) -> None:
    """KIP-841, KIP-903."""
    seen = Seen(LEADER, end=5)
    seen.fetched(SECOND, 5)
    seen.brokers[SECOND] = record
    assert not seen.may_enter_isr(SECOND)
    assert seen.propose() is None


def test_a_follower_that_has_not_fetched_does_not_enter_the_isr() -> None:
    assert not Seen(LEADER).may_enter_isr(SECOND)


def test_a_follower_that_has_the_whole_log_enters_the_isr_however_long_nothing_was_read_for_it() -> None:
    """Seed 9591: a fetch session leaves out partitions that have not changed. Nothing is read for them."""
    seen = Seen(LEADER, end=5)
    seen.fetched(SECOND, 5)
    seen.clock.ms += LAG_MS + 1
    assert seen.may_enter_isr(SECOND, high_watermark=5)
    assert seen.propose(high_watermark=5) is not None


def test_a_follower_that_no_longer_fetches_does_not_enter_the_isr() -> None:
    """Though it has all that is committed."""
    seen = Seen(LEADER, end=5)
    seen.fetched(SECOND, 3)
    seen.clock.ms += LAG_MS
    assert seen.may_enter_isr(SECOND, high_watermark=3)
    seen.clock.ms += 1
    assert not seen.may_enter_isr(SECOND, high_watermark=3)
    assert seen.propose(high_watermark=3) is None


def test_a_fetch_of_an_older_incarnation_is_stale() -> None:
    seen = Seen(LEADER, SECOND)
    assert seen.leader_state.is_stale(SECOND, 11)
    assert not seen.leader_state.is_stale(SECOND, 12)
    assert not seen.leader_state.is_stale(SECOND, 13), "this leader does not know its registration yet"
    assert seen.leader_state.is_stale(SECOND, -1), "a sender without a broker epoch (CVE-2018-1288)"


def test_a_follower_that_stops_fetching_leaves_the_isr_after_the_lag_time() -> None:
    seen = Seen(LEADER, SECOND, THIRD, end=5)
    seen.fetched(SECOND, 5)
    seen.fetched(THIRD, 5)
    seen.end = 6
    seen.clock.ms += LAG_MS
    assert seen.leader_state.out_of_sync_replicas(seen.end, seen.clock.ms) == []
    seen.clock.ms += 1
    assert seen.leader_state.out_of_sync_replicas(seen.end, seen.clock.ms) == [SECOND, THIRD]


def test_a_follower_slightly_behind_a_busy_leader_stays_in_sync() -> None:
    """What counts is having had, at one fetch, all that the leader had at the one before."""
    seen = Seen(LEADER, SECOND, end=5)
    for _ in range(20):
        seen.fetched(SECOND, seen.end)
        seen.end += 5
        seen.clock.ms += 5000
        seen.fetched(SECOND, seen.end - 5)
        seen.end += 5
        seen.clock.ms += 100
        seen.fetched(SECOND, seen.end - 5)
    assert seen.leader_state.out_of_sync_replicas(seen.end, seen.clock.ms) == []


def test_the_lag_time_counts_from_the_election() -> None:
    seen = Seen(LEADER, SECOND, end=5)
    seen.clock.ms += LAG_MS
    assert seen.leader_state.out_of_sync_replicas(seen.end, seen.clock.ms) == []
    seen.clock.ms += 1
    assert seen.leader_state.out_of_sync_replicas(seen.end, seen.clock.ms) == [SECOND]


def test_added_replicas_become_followers_and_removed_ones_do_not_stay() -> None:
    seen = Seen(LEADER, SECOND, end=5)
    seen.fetched(SECOND, 3)
    moved = PartitionState(LEADER, EPOCH, 1, (LEADER, SECOND, 4), (LEADER, SECOND))
    seen.leader_state.adopt(moved, seen.clock.ms)
    assert list(seen.leader_state.followers) == [SECOND, 4]
    assert seen.leader_state.followers[SECOND].end_offset == 3


def test_the_low_watermark_counts_live_replicas_only() -> None:
    seen = Seen(LEADER, SECOND, end=5)
    assert seen.leader_state.low_watermark(4) == -1
    seen.leader_state.followers[SECOND].log_start_offset = 2
    seen.brokers[THIRD] = broker(THIRD, fenced=True)
    assert seen.leader_state.low_watermark(4) == 2


def test_consumers_are_sent_to_an_in_sync_follower_in_their_rack_that_has_the_offset() -> None:
    """KIP-392."""
    seen = Seen(LEADER, SECOND, end=5)
    seen.fetched(SECOND, 4)
    seen.fetched(THIRD, 5)

    def preferred(rack: str, offset: int) -> int | None:
        return preferred_replica(seen.leader_state, seen.brokers, leader_id=LEADER, rack=rack, offset=offset)

    assert preferred("rack-2", 3) == SECOND
    assert preferred("rack-2", 5) is None
    assert preferred("rack-3", 3) is None, "it is not in sync"
    assert preferred("rack-1", 3) is None, "the leader itself"
    assert preferred("", 3) is None
    seen.brokers[SECOND] = broker(SECOND, fenced=True)
    assert preferred("rack-2", 3) is None


def test_the_replica_selector_is_set_by_its_java_name() -> None:
    assert is_rack_aware("org.apache.kafka.common.replica.RackAwareReplicaSelector")
    assert not is_rack_aware(None)
