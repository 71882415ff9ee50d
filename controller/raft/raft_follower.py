"""The rules of a follower: fetching, truncating a divergent log end, appending, syncing, installing snapshots.

An observer without a known leader asks voters at random, whose responses name the leader.
"""

from minikafka.controller.raft.effects import Installed, Sync
from minikafka.controller.raft.election_state import NO_NODE
from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.member import Inconsistent, Member
from minikafka.controller.raft.messages import Fetch, FetchResponse, FetchSnapshot, FetchSnapshotResponse
from minikafka.controller.raft.role_states import Download, Follower, Unattached

SUSPECTED_LEADER_FRACTION = 0.25
"""The fraction of an election timeout within which a voter with a suspected leader starts a pre-vote."""


def due(member: Member, follower: Follower) -> None:
    """Fetch, or give up on the leader after the fetch timeout."""
    if member.now < follower.fetch_deadline:
        _fetch(member, follower)
    elif member.may_lead:
        member.become_prospective(deadline=member.now, lost_leader=follower.leader_id)
    else:
        member.become_unattached()


def _fetch(member: Member, follower: Follower) -> None:
    """Send the next request. A request that is still in flight is given up."""
    settings = member.settings
    download = follower.download
    request: Fetch | FetchSnapshot
    if download is None:
        request = _next_fetch(member, max_wait=settings.fetch_wait)
        follower.next_request_at = member.now + settings.fetch_wait + settings.request_timeout
    else:
        request = FetchSnapshot(
            member.epoch,
            member.node_id,
            download.snapshot,
            len(download.data),
            settings.snapshot_bytes_max,
            member.directory,
        )
        follower.next_request_at = member.now + settings.request_timeout
    follower.in_flight = request
    member.send(follower.leader_id, request)


def synced(member: Member, follower: Follower, sync: Sync) -> None:
    """Make the next request due, which acknowledges the records now on the device, and restart the timeouts."""
    if follower.unsynced != sync:
        return
    follower.unsynced = None
    follower.next_request_at = member.now
    if not follower.leader_suspected:
        follower.fetch_deadline = member.now + follower.fetch_timeout


def _next_fetch(member: Member, *, max_wait: float) -> Fetch:
    return Fetch(
        member.epoch,
        member.node_id,
        fetch_offset=member.log.end_offset,
        last_fetched_epoch=member.log.last_epoch,
        high_watermark=member.high_watermark,
        max_wait_ms=round(max_wait * 1000),
        max_bytes=member.settings.fetch_bytes_max,
        directory=member.directory,
    )


def suspect(member: Member, follower: Follower) -> None:
    """Shorten the fetch timeout, because the leader has probably failed. A response from the leader undoes this."""
    if not follower.leader_suspected:
        follower.leader_suspected = True
        soon = member.now + member.settings.election_timeout * SUSPECTED_LEADER_FRACTION * member.random.random()
        follower.fetch_deadline = min(follower.fetch_deadline, soon)


def failed(member: Member, follower: Follower) -> None:
    """Repeat the request in flight after a pause, because it got no response or no useful one."""
    follower.in_flight = None
    follower.next_request_at = member.now + member.settings.retry_backoff


def handle_response(member: Member, follower: Follower, response: FetchResponse | FetchSnapshotResponse) -> None:
    """Handle the response to the request in flight."""
    if response.epoch != member.epoch or response.leader != follower.leader_id:
        failed(member, follower)
        if response.epoch == member.epoch and response.leader == NO_NODE:
            suspect(member, follower)  # It has resigned.
        return
    failed(member, follower)  # Undone below if the response is useful; remains after an exception.
    follower.leader_responded, follower.leader_suspected = True, False
    follower.fetch_deadline = member.now + follower.fetch_timeout
    if isinstance(response, FetchSnapshotResponse):
        is_of_use = _handle_snapshot_part(member, follower, response)
    else:
        is_of_use = _handle_fetched(member, follower, response)
    if is_of_use:
        follower.next_request_at = member.now


def _handle_fetched(member: Member, follower: Follower, response: FetchResponse) -> bool:
    """Apply the response to a Fetch; return whether it was useful. The leader's high watermark counts only if the logs
    agree (KAFKA-14704)."""
    if response.diverging is not None:
        return _truncate(member, response.diverging)
    if response.snapshot is not None:
        follower.download = Download(response.snapshot)
        return True
    if response.records:
        end_offset = member.log.end_offset
        try:
            member.log.append_as_follower(response.records)
        except ValueError as error:
            raise Inconsistent(f"the records of the leader of epoch {member.epoch} are refused: {error}") from error
        finally:  # The next Fetch acknowledges them, also after an exception.
            if member.log.end_offset > end_offset:
                follower.unsynced = member.sync()
        member.voters_changed()
    follower.leader_high_watermark = response.high_watermark
    member.commit(min(response.high_watermark, member.log.end_offset))
    return True


def confirmed_offset(member: Member, follower: Follower) -> int:
    """The leader's high watermark, once it has committed a record of its own epoch; 0 before. Until then a new leader
    may know less than was committed (Raft, section 5.4.2)."""
    log = member.log
    if log.start_epoch == member.epoch:
        return follower.leader_high_watermark
    is_known = log.last_epoch == member.epoch
    begun = is_known and follower.leader_high_watermark > log.end_offset_for(member.epoch - 1).end_offset
    return follower.leader_high_watermark if begun else 0


def _truncate(member: Member, theirs: EpochEnd) -> bool:
    """Truncate to the last offset up to which both logs may agree; the next Fetch shows whether they do."""
    ours = member.log.end_offset_for(theirs.epoch)
    offset = min(ours.end_offset, theirs.end_offset) if ours.epoch == theirs.epoch else ours.end_offset
    if offset >= member.log.end_offset:
        return False
    if offset < member.high_watermark:
        raise Inconsistent(
            f"the leader of epoch {member.epoch} requires truncation of the log to {offset}, below the high watermark"
            f" {member.high_watermark} (KAFKA-12460)"
        )
    member.log.truncate_to(offset)
    member.voters_changed()
    return True


def _handle_snapshot_part(member: Member, follower: Follower, part: FetchSnapshotResponse) -> bool:
    """Add a part of the snapshot, and install the snapshot once it is complete; return whether the part was useful."""
    download = follower.download
    assert download is not None, "a part was requested"
    if part.size < 0 or part.snapshot != download.snapshot:
        follower.download = None
        return True
    if part.size > member.settings.snapshot_size_max:
        raise Inconsistent(f"a snapshot of {part.size} bytes exceeds the limit of {member.settings.snapshot_size_max}")
    is_next = part.position == len(download.data)
    is_new = bool(part.data) or part.size == 0
    if not is_next or not is_new or part.position + len(part.data) > part.size:
        return False
    download.data += part.data
    if len(download.data) == part.size:
        follower.download = None
        _install(member, follower, download)
    return True


def completed_by(member: Member, follower: Follower, part: FetchSnapshotResponse) -> tuple[SnapshotId, bytes] | None:
    """The snapshot that a part completes and that will be installed; None if there is none."""
    download = follower.download
    if download is None or part.snapshot != download.snapshot or part.position != len(download.data):
        return None
    if part.position + len(part.data) != part.size or part.snapshot.offset < member.high_watermark:
        return None
    return part.snapshot, bytes(download.data) + part.data


def _install(member: Member, follower: Follower, download: Download) -> None:
    snapshot, data = download.snapshot, bytes(download.data)
    if snapshot.offset < member.high_watermark:
        raise Inconsistent(f"{snapshot} is below the high watermark {member.high_watermark}")
    member.log.start_at(snapshot, data)
    member.voters_changed()
    member.high_watermark = snapshot.offset
    follower.unsynced = member.sync()
    member.effects.append(Installed(snapshot, data))


def find_leader(member: Member, observer: Unattached) -> None:
    """Ask a random voter for the leader, or a node that knows voters."""
    asked = sorted({*member.others, *member.contacts})
    if not asked:
        retry_find_leader(member, observer)
        return
    observer.in_flight = _next_fetch(member, max_wait=0)
    observer.deadline = member.now + member.settings.request_timeout
    member.send(member.random.choice(asked), observer.in_flight)


def retry_find_leader(member: Member, observer: Unattached) -> None:
    """Ask another voter after a pause, because the voter asked did not know the leader or did not respond."""
    observer.in_flight = None
    observer.deadline = member.now + member.settings.retry_backoff
