"""The rules of a leader: appending, serving Fetches, advancing the high watermark, resigning without a majority.

A Fetch is also an acknowledgement: a replica that fetches offset 10 has everything before it on its disk.
"""

from collections.abc import Sequence
from math import inf

from minikafka.controller.raft.effects import Sync, Token
from minikafka.controller.raft.log_interface import EpochEnd, RaftLog, SnapshotId
from minikafka.controller.raft.member import Inconsistent, Member
from minikafka.controller.raft.membership_records import MembershipRecord, control_batch, control_value
from minikafka.controller.raft.messages import BeginEpoch, Fetch, FetchResponse, FetchSnapshot, FetchSnapshotResponse
from minikafka.controller.raft.role_states import Leader, ParkedFetch, ReplicaProgress
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey

ANNOUNCEMENTS_PER_FETCH_TIMEOUT = 4


def begin(member: Member, granting: list[int]) -> None:
    """Lead the epoch that this node was elected in."""
    member.become_leader(granting)
    leader = member.state
    assert isinstance(leader, Leader), "become_leader sets it"
    _announce(member, leader)
    member.sync()


def due(member: Member, leader: Leader) -> None:
    """Answer Fetches that have waited long enough, send BeginEpoch, or resign (check-quorum)."""
    if member.now >= leader.resigns_at:
        member.become_resigned()
        return
    for waiting in [waiting for waiting in leader.parked.values() if member.now >= waiting.until]:
        _respond_to_parked(member, leader, waiting)
    if member.now >= leader.announces_at:
        _announce(member, leader)


def _announce(member: Member, leader: Leader) -> None:
    """Send BeginEpoch to the voters that do not fetch."""
    interval = member.settings.fetch_timeout / ANNOUNCEMENTS_PER_FETCH_TIMEOUT
    for voter, progress in leader.voters.items():
        fetched_at = -inf if progress.fetched_at is None else progress.fetched_at
        if voter not in leader.parked and fetched_at <= member.now - interval:
            member.send(voter, BeginEpoch(member.epoch, member.node_id))
    leader.announces_at = member.now + interval if leader.voters else inf


def append(member: Member, leader: Leader, batches: bytes) -> None:
    """Append, answer waiting Fetches, then sync: all replicas write to disk in parallel (Ongaro, 10.2.1)."""
    member.log.append_as_leader(batches, member.epoch)
    _answer_fetches_with_news(member, leader)
    member.sync()


def synced(member: Member, leader: Leader, sync: Sync) -> None:
    """Count the leader towards the majority up to the offset up to which its log is synced."""
    if sync.epoch == member.epoch and sync.end_offset > leader.synced_end:
        leader.synced_end = sync.end_offset
        _advance_high_watermark(member, leader)


def handle_fetch(member: Member, leader: Leader, fetch: Fetch, token: Token) -> None:
    """Answer a Fetch of this epoch with records, a divergence or a snapshot id; or park it until there is news."""
    progress = _contact(member, leader, ReplicaKey(fetch.replica, fetch.directory))
    _answer_superseded(member, leader, fetch.replica)
    divergence = find_divergence(member.log, fetch.fetch_offset, fetch.last_fetched_epoch)
    if divergence is not None:
        # The replica has records that this log lacks: nothing is acknowledged (KAFKA-13141).
        member.respond(token, _divergence_response(member, divergence))
        return
    progress.end_offset = fetch.fetch_offset
    if fetch.fetch_offset >= member.log.end_offset:
        progress.caught_up_at = member.now
    _advance_high_watermark(member, leader)
    if _has_news(member, fetch) or fetch.max_wait_ms == 0:
        member.respond(token, _records_response(member, fetch))
    else:
        leader.parked[fetch.replica] = ParkedFetch(fetch, token, until=member.now + fetch.max_wait_ms / 1000)


def handle_fetch_snapshot(member: Member, leader: Leader, fetch: FetchSnapshot) -> FetchSnapshotResponse:
    """Answer a FetchSnapshot with a part of the snapshot."""
    _contact(member, leader, ReplicaKey(fetch.replica, fetch.directory))
    part = member.log.read_snapshot(fetch.snapshot, fetch.position, fetch.max_bytes)
    if part is None:
        return FetchSnapshotResponse(member.epoch, member.node_id, fetch.snapshot)
    size, data = part
    return FetchSnapshotResponse(member.epoch, member.node_id, fetch.snapshot, size, fetch.position, data)


def find_divergence(log: RaftLog, fetch_offset: int, last_fetched_epoch: int) -> EpochEnd | SnapshotId | None:
    """Find where a log that ends at `fetch_offset` with `last_fetched_epoch` diverges from this log.

    Returns None if that log is a prefix of this log. Otherwise returns the greatest epoch up to `last_fetched_epoch` in
    this log, with its end, so that the replica can truncate to a common prefix (KIP-595); or the snapshot to fetch, if
    `fetch_offset` is before this log's start.
    """
    start, start_epoch = log.start_offset, log.start_epoch
    parts_at_start = fetch_offset == start and last_fetched_epoch != start_epoch
    if fetch_offset < start or last_fetched_epoch < start_epoch or parts_at_start:
        snapshot = log.latest_snapshot()
        if snapshot is not None:
            return snapshot
        if start:
            raise Inconsistent(f"the log starts at offset {start}, and there is no snapshot of the records before it")
    end = log.end_offset_for(last_fetched_epoch)
    if end.epoch != last_fetched_epoch or end.end_offset < fetch_offset:
        return end
    return None


def _contact(member: Member, leader: Leader, replica: ReplicaKey) -> ReplicaProgress:
    """Record contact with a replica; return its progress."""
    is_voter = member.voter_set.is_voter(replica)
    if replica.directory_id != NO_DIRECTORY:
        leader.observers.pop(ReplicaKey(replica.id), None)  # from before its log named the directories
    progress = leader.voters[replica.id] if is_voter else _observer(member, leader, replica)
    progress.contact = progress.fetched_at = member.now
    if member.now < leader.resigns_at:  # A Fetch that waited while this node was paused does not prove that it leads.
        _check_quorum(member, leader)
    return progress


def _check_quorum(member: Member, leader: Leader) -> None:
    """Set the time at which the leader resigns unless more voters fetch: it leads for a fetch timeout after a majority,
    counting itself if it is a voter, has fetched."""
    needed = member.majority - member.is_voter
    if needed:
        contacts = sorted((voter.contact for voter in leader.voters.values()), reverse=True)
        leader.resigns_at = contacts[needed - 1] + member.settings.fetch_timeout
    else:
        leader.resigns_at = inf


def _observer(member: Member, leader: Leader, replica: ReplicaKey) -> ReplicaProgress:
    """The progress of an observer. A new one evicts expired observers and, above the limit, the oldest."""
    known = leader.observers.get(replica)
    if known is not None:
        return known
    oldest_first = sorted(leader.observers, key=lambda other: (leader.observers[other].contact, other))
    excess = len(oldest_first) + 1 - member.settings.observers_max
    for rank, other in enumerate(oldest_first):
        if rank < excess or leader.observers[other].contact < member.now - member.settings.observer_session:
            _answer_superseded(member, leader, other.id)
            del leader.observers[other]
    leader.observers[replica] = progress = ReplicaProgress(contact=member.now)
    return progress


def append_voters(member: Member, leader: Leader, records: Sequence[MembershipRecord]) -> None:
    """Append records of the voters, which take effect at once. A replica that becomes a voter or an observer keeps its
    progress."""
    voters = {voter.key: leader.voters[voter.key.id] for voter in member.voter_set if voter.key.id in leader.voters}
    batch = control_batch([control_value(record) for record in records], timestamp_ms=member.wall_clock_ms())
    member.log.append_as_leader(batch, member.epoch)
    member.voters_changed()
    known = {**leader.observers, **voters}
    leader.voters = {
        key.id: known.pop(key) if key in known else ReplicaProgress(contact=member.now)
        for key in member.voter_set.keys
        if key.id != member.node_id
    }
    leader.observers = known
    leader.announces_at = member.now
    _check_quorum(member, leader)
    _answer_fetches_with_news(member, leader)
    member.sync()
    _advance_high_watermark(member, leader)


def _advance_high_watermark(member: Member, leader: Leader) -> None:
    """Commit the records that a majority has synced, if they include one of this epoch (Raft, section 5.4.2).

    A leader that is no longer a voter does not count itself, and resigns once the record that removes it is committed.
    """
    ends = [voter.end_offset for voter in leader.voters.values()]
    if member.is_voter:
        ends.append(leader.synced_end)
    on_a_majority = sorted(ends, reverse=True)[member.majority - 1]
    if on_a_majority > max(leader.epoch_start, member.high_watermark):
        member.commit(on_a_majority)
        _answer_fetches_with_news(member, leader)
        if not member.is_voter and member.high_watermark > member.log.history.latest.offset:
            leader.resigns_at = member.now


def _has_news(member: Member, fetch: Fetch) -> bool:
    return fetch.fetch_offset < member.log.end_offset or fetch.high_watermark < member.high_watermark


def _answer_fetches_with_news(member: Member, leader: Leader) -> None:
    for waiting in [waiting for waiting in leader.parked.values() if _has_news(member, waiting.request)]:
        _respond_to_parked(member, leader, waiting)


def _answer_superseded(member: Member, leader: Leader, replica: int) -> None:
    """Answer the earlier Fetch of a replica that fetches again, because every token must get a response."""
    waiting = leader.parked.get(replica)
    if waiting is not None:
        _respond_to_parked(member, leader, waiting)


def _respond_to_parked(member: Member, leader: Leader, waiting: ParkedFetch) -> None:
    del leader.parked[waiting.request.replica]
    member.respond(waiting.token, _records_response(member, waiting.request))


def _records_response(member: Member, fetch: Fetch) -> FetchResponse:
    log = member.log
    if fetch.fetch_offset < log.start_offset:
        snapshot = log.latest_snapshot()  # A snapshot was written while the Fetch waited.
        assert snapshot is not None, "a log starts at 0 or at a snapshot"
        return _divergence_response(member, snapshot)
    max_bytes = min(fetch.max_bytes, member.settings.fetch_bytes_max)
    records = log.read(fetch.fetch_offset, max_bytes) if fetch.fetch_offset < log.end_offset else b""
    return FetchResponse(
        member.epoch, member.node_id, records, high_watermark=member.high_watermark, log_start=log.start_offset
    )


def _divergence_response(member: Member, divergence: EpochEnd | SnapshotId) -> FetchResponse:
    return FetchResponse(
        member.epoch,
        member.node_id,
        high_watermark=member.high_watermark,
        diverging=divergence if isinstance(divergence, EpochEnd) else None,
        snapshot=divergence if isinstance(divergence, SnapshotId) else None,
        log_start=member.log.start_offset,
    )
