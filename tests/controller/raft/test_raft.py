"""`Raft` beyond the golden scripts: invalid messages, the leader's view of replicas, LEADER_CHANGE, transitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, product
from math import inf

import pytest
from simulation.raft_log import HEAD, DiskLog, SimulatedLog
from simulation.raft_script import Middle
from support.raft_settings import raft_settings

from minikafka.controller.raft.effects import SendRequest, SendResponse, Sync
from minikafka.controller.raft.election_state import EPOCH_MAX, ElectionState
from minikafka.controller.raft.leader_change import leader_change
from minikafka.controller.raft.log_interface import SnapshotId
from minikafka.controller.raft.membership_records import control_batch
from minikafka.controller.raft.messages import (
    BadMessage,
    BeginEpoch,
    BeginEpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    Request,
    Vote,
    VoteResponse,
)
from minikafka.controller.raft.raft import EPOCH_ADOPTED_MAX, EPOCHS_AHEAD_MAX, Inconsistent, NotLeader, Raft
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.role_transitions import TRANSITIONS, IllegalTransition, Role, check_transition
from minikafka.protocol.records.batch import parse_header
from minikafka.protocol.records.control import ControlType, control_type


def a_node(
    node_id: int = 1,
    voters: tuple[int, ...] = (1, 2, 3),
    settings: RaftSettings | None = None,
    election: ElectionState | None = None,
    log: SimulatedLog | None = None,
) -> Raft:
    return Raft(
        node_id=node_id,
        voters=voters,
        log=log or SimulatedLog(DiskLog(), lambda base, previous_epoch, entry: None),
        election=election or ElectionState(),
        settings=settings or raft_settings(),
        random=Middle(0),
        now=0.0,
    )


def a_leader(settings: RaftSettings | None = None) -> Raft:
    """The leader of epoch 1, one of three voters."""
    raft = a_node(settings=settings)
    effects = raft.tick(0.2)
    while not raft.is_leader:
        vote = next(effect.request for effect in effects if isinstance(effect, SendRequest))
        effects = raft.response(0.2, 2, vote, VoteResponse(vote.epoch, -1, granted=True))
    return raft


def fetch(replica: int, offset: int, *, epoch: int = 1, last: int = 1, wait: int = 300) -> Fetch:
    return Fetch(epoch, replica, offset, last, 0, wait, 1 << 20)


def test_a_leader_confirms_nothing_before_a_record_of_its_epoch_is_committed() -> None:
    raft = a_leader()
    raft.synced(0.2, Sync(1, 1))
    assert raft.confirmed_offset == 0
    raft.request(0.3, 2, fetch(2, 1), "t")
    assert raft.confirmed_offset == raft.high_watermark == 1


def restarted(epoch: int) -> tuple[Raft, Callable[..., None]]:
    """A node that has a snapshot of epoch 1 before offset 7 and follows node 2, and what answers its next Fetch."""
    disk = DiskLog()
    disk.records.start_at(SnapshotId(7, 1), b"")
    raft = a_node(election=ElectionState(1), log=SimulatedLog(disk, lambda base, previous_epoch, entry: None))
    effects = list(raft.request(0.1, 2, BeginEpoch(epoch, 2), "t"))
    clock = count(0.1, 0.01)

    def answer(high_watermark: int, records: bytes = b"") -> None:
        asked = next(one.request for one in effects if isinstance(one, SendRequest))
        answered = FetchResponse(epoch, 2, records, high_watermark)
        effects[:] = raft.response(next(clock), 2, asked, answered)
        for sync in [one for one in effects if isinstance(one, Sync)]:
            effects[:] = raft.synced(next(clock), sync)
        effects.extend(raft.tick(next(clock)))

    return raft, answer


def test_a_snapshot_confirms_nothing_before_the_leader_has_committed_in_its_epoch() -> None:
    raft, answer = restarted(epoch=2)
    assert (raft.confirmed_offset, raft.high_watermark) == (0, 7)
    answer(7, HEAD.pack(7, 2, 1, 1) + b"\1")
    assert raft.confirmed_offset == 0, "a new leader may know less than was committed"
    answer(8)
    assert raft.confirmed_offset == raft.high_watermark == 8
    answer(12)
    assert (raft.confirmed_offset, raft.high_watermark) == (12, 8), "also what this node does not have yet"
    raft.request(0.3, 3, BeginEpoch(3, 3), "t")
    assert (raft.confirmed_offset, raft.high_watermark) == (0, 8)


def test_a_snapshot_of_the_leaders_epoch_is_confirmed_by_its_first_answer() -> None:
    raft, answer = restarted(epoch=1)
    assert (raft.confirmed_offset, raft.high_watermark) == (0, 7)
    answer(7)
    assert raft.confirmed_offset == 7


@pytest.mark.parametrize(
    ("sender", "message"),
    [
        (2, Vote(1, 3, 0, 0, pre_vote=False)),
        (4, Vote(1, 4, 0, 0, pre_vote=True)),
        (4, BeginEpoch(1, 4)),
        (3, BeginEpoch(1, 2)),
        (3, fetch(2, 0)),
        (1, fetch(1, 0)),
    ],
    ids=["for another", "no voter", "leads without being a voter", "leads as another", "fetches as another", "itself"],
)
def test_a_message_of_another_node_is_refused(sender: int, message: Vote | BeginEpoch | Fetch) -> None:
    raft = a_node()
    with pytest.raises(BadMessage):
        raft.request(0.1, sender, message, "token")
    assert raft.epoch == 0


SNAPSHOT = SnapshotId(1, 1)
LATER = 1 << 30
REQUESTS = (
    Vote(LATER, 2, LATER, 1 << 40, pre_vote=False),
    Vote(LATER, 2, LATER, 1 << 40, pre_vote=True),
    BeginEpoch(LATER, 2),
    Fetch(LATER, 2, 0, 0, 0, 0, 1000),
    FetchSnapshot(LATER, 2, SNAPSHOT, 0, 1000),
)
STRANGER = 9


def as_of(node_id: int, message: Request) -> Request:
    """The request as this node would send it."""
    if isinstance(message, Fetch | FetchSnapshot):
        return replace(message, replica=node_id)
    return replace(message, candidate=node_id) if isinstance(message, Vote) else replace(message, leader=node_id)


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("sender", [2, STRANGER], ids=["a voter", "a stranger"])
@pytest.mark.parametrize("message", REQUESTS, ids=lambda message: message.KIND)
def test_only_a_voter_that_may_lead_ends_an_epoch(message: Request, sender: int, *, dynamic: bool) -> None:
    """A Fetch of a later epoch changes nothing, whoever sends it, as in Kafka (UNKNOWN_LEADER_EPOCH)."""
    raft = a_leader()
    if dynamic:
        raft.quorum_is_dynamic([])
    ends = sender == 2 and not isinstance(message, Fetch | FetchSnapshot)
    try:
        effects = raft.request(0.3, sender, as_of(sender, message), "token")
    except BadMessage:
        assert not dynamic
        assert not isinstance(message, Fetch | FetchSnapshot)
    else:
        [answer] = [effect.message for effect in effects if isinstance(effect, SendResponse)]
        assert answer.epoch == (LATER if ends else 1), "it learns the epoch"
    assert (raft.epoch, raft.is_leader) == ((LATER, False) if ends else (1, True))


def test_a_new_voter_is_believed_once_there_is_no_leader() -> None:
    raft = a_node()
    raft.quorum_is_dynamic([])
    raft.request(0.1, STRANGER, BeginEpoch(7, STRANGER), "token")
    assert (raft.epoch, raft.leader_id) == (7, STRANGER)


def test_no_message_uses_up_the_epochs_and_a_quorum_far_ahead_still_elects() -> None:
    raft, epoch = a_node(), EPOCH_ADOPTED_MAX
    with pytest.raises(BadMessage, match="too far ahead"):
        raft.request(0.1, 2, BeginEpoch(epoch + 1, 2), "token")
    with pytest.raises(BadMessage, match="too far ahead"):
        raft.response(0.1, 2, Vote(0, 1, 0, 0, pre_vote=True), VoteResponse(EPOCH_MAX, -1, granted=False))
    assert raft.epoch == 0
    for sender, later in ((2, epoch), (3, epoch + 1), (2, epoch + 1 + EPOCHS_AHEAD_MAX)):
        raft.request(0.1, sender, BeginEpoch(later, sender), "token")
        assert (raft.epoch, raft.leader_id) == (later, sender)
    with pytest.raises(BadMessage, match="too far ahead"):
        raft.request(0.1, 3, BeginEpoch(raft.epoch + EPOCHS_AHEAD_MAX + 1, 3), "token")


def test_no_election_goes_beyond_the_last_epoch() -> None:
    raft = a_node(voters=(1,), election=ElectionState(EPOCH_MAX - 1))
    raft.tick(0.2)
    assert (raft.epoch, raft.is_leader) == (EPOCH_MAX, True)
    with pytest.raises(Inconsistent, match="restore backups of the metadata directories"):
        a_node(voters=(1,), election=ElectionState(EPOCH_MAX)).tick(0.2)


def test_a_response_of_another_kind_is_refused() -> None:
    vote = Vote(0, 1, 0, 0, pre_vote=True)
    with pytest.raises(BadMessage):
        a_node().response(0.1, 2, vote, BeginEpochResponse(9, 2))
    with pytest.raises(BadMessage):
        a_node().response(0.1, 2, vote, VoteResponse(9, 7, granted=False))


def test_only_the_leader_appends() -> None:
    with pytest.raises(NotLeader):
        a_node().append(0.1, b"\1")


def test_the_leader_describes_all_replicas() -> None:
    raft = a_leader()
    assert raft.is_leader
    raft.request(0.4, 2, fetch(2, 1), "t")
    raft.request(0.5, 9, fetch(9, 0, last=0), "t")
    raft.append(0.6, b"\1")
    seen = [(node.id, node.is_voter, node.end_offset, node.last_caught_up_time) for node in raft.replicas()]
    assert seen == [(1, True, 2, 0.6), (2, True, 1, 0.4), (3, True, -1, None), (9, False, 0, None)]


def test_other_nodes_describe_no_replicas() -> None:
    assert a_node().replicas() == []


def test_expired_observers_are_forgotten() -> None:
    raft = a_leader(raft_settings(fetch_timeout=1e6, observer_session=10.0))
    raft.request(1.0, 8, fetch(8, 1), "of 8")
    raft.request(20.0, 9, fetch(9, 1), "of 9")
    assert [replica.id for replica in raft.replicas()] == [1, 2, 3, 9]


def test_observers_above_the_limit_are_evicted_and_all_are_answered() -> None:
    raft = a_leader(raft_settings(observers_max=2))
    answered: list[object] = []
    for node_id in (11, 12, 13):
        effects = raft.request(0.3 + node_id / 1000, node_id, fetch(node_id, 1, wait=10_000), node_id)
        answered += [effect.token for effect in effects if isinstance(effect, SendResponse)]
    assert answered == [11]
    assert [replica.id for replica in raft.replicas()] == [1, 2, 3, 12, 13]


def test_the_first_record_of_an_epoch_has_kafkas_format() -> None:
    batch = parse_header(control_batch([leader_change(1, (1, 2, 3), (1, 3))], timestamp_ms=99))
    batch.check_crc()
    assert batch.is_control
    [record] = batch.records()
    assert (control_type(record.key), record.timestamp) == (ControlType.LEADER_CHANGE, 99)
    assert record.value == bytes.fromhex("0000 00000001 0400000001000000000200000000030003000000010000000003 00 00")


@pytest.mark.parametrize(("before", "after"), list(product(Role, Role)), ids=lambda role: role.value)
def test_an_illegal_role_transition_raises(before: Role, after: Role) -> None:
    if after in TRANSITIONS[before]:
        check_transition(before, after, is_voter=True)
    else:
        with pytest.raises(IllegalTransition):
            check_transition(before, after, is_voter=True)


def test_an_observer_cannot_become_a_candidate() -> None:
    with pytest.raises(IllegalTransition):
        check_transition(Role.UNATTACHED, Role.PROSPECTIVE, is_voter=False)


def test_an_observer_waits_for_no_voter_while_it_pauses_before_it_asks_the_next_one() -> None:
    observer = a_node(9)
    assert observer.gives_up_at == inf
    (asked,) = observer.tick(observer.deadline)
    assert isinstance(asked, SendRequest)
    assert observer.gives_up_at == observer.deadline, "a response that waits in a socket is heard first"
    observer.failed(1.0, asked.peer, asked.request)
    assert (observer.deadline, observer.gives_up_at) == (1.0 + raft_settings().retry_backoff, inf)


@pytest.mark.parametrize("wrong", [{"election_timeout": 0.0}, {"fetch_wait": 0.8}, {"retry_backoff": -1.0}], ids=str)
def test_invalid_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"fetch|timeouts"):
        raft_settings(**wrong)


def test_an_observer_that_names_its_directory_is_the_one_that_did_not() -> None:
    """A new node names its directory only once its log says that the quorum is dynamic."""
    raft = a_node(voters=(1,))
    raft.tick(0.0)
    raft.request(0.1, 2, Fetch(1, 2, 0, 0, 0, 0, 100), "token")
    raft.request(0.2, 2, Fetch(1, 2, 0, 0, 0, 0, 100, b"a" * 16), "token")
    assert [(one.id, one.directory_id) for one in raft.replicas() if not one.is_voter] == [(2, b"a" * 16)]


def test_a_leader_leads_for_certain_for_a_fetch_timeout_after_a_majority_has_fetched() -> None:
    """A Fetch that arrives later, from before a pause of this node, does not prolong that: it resigns."""
    raft = a_leader()
    timeout = raft_settings().fetch_timeout
    assert not a_node().surely_leads(0.2)
    raft.request(0.3, 2, fetch(2, 0, wait=0), "token")
    assert raft.surely_leads(0.3 + timeout - 0.001)
    assert not raft.surely_leads(0.3 + timeout)
    raft.request(0.3 + timeout, 3, fetch(3, 0, wait=0), "token")
    assert not raft.is_leader
