"""What a follower does: it fetches, cuts off what the leader does not have, appends, syncs, and fetches again.

An observer that knows no leader asks voters at random; who does not lead tells it who does.
"""

from minikafka.controller.raft.effects import Installed
from minikafka.controller.raft.election_state import NOBODY
from minikafka.controller.raft.log_interface import EpochEnd
from minikafka.controller.raft.member import Inconsistent, Member
from minikafka.controller.raft.messages import Fetch, FetchResponse, FetchSnapshot, FetchSnapshotResponse
from minikafka.controller.raft.role_states import Download, Follower, Unattached

SUSPECTED_LEADER_FRACTION = 0.25
"""The part of an election timeout within which a voter stands whose leader is probably gone."""


def due(member: Member, follower: Follower) -> None:
    """Fetch, or lose fetch_timeout with the leader."""
    if member.now < follower.fetch_deadline:
        _fetch(member, follower)
    elif member.is_voter:
        member.become_prospective(deadline=member.now, lost_leader=follower.leader_id)
    else:
        member.become_unattached()


def _fetch(member: Member, follower: Follower) -> None:
    """Send the next request. One that is still under way is given up."""
    settings = member.settings
    download = follower.download
    request: Fetch | FetchSnapshot
    if download is None:
        request = _next_fetch(member, max_wait=settings.fetch_wait)
        follower.next_request_at = member.now + settings.fetch_wait + settings.request_timeout
    else:
        request = FetchSnapshot(
            member.epoch, member.node_id, download.snapshot, len(download.data), settings.snapshot_bytes_max
        )
        follower.next_request_at = member.now + settings.request_timeout
    follower.in_flight = request
    member.send(follower.leader_id, request)


def _next_fetch(member: Member, *, max_wait: float) -> Fetch:
    return Fetch(
        member.epoch,
        member.node_id,
        fetch_offset=member.log.end_offset,
        last_fetched_epoch=member.log.last_epoch,
        high_watermark=member.high_watermark,
        max_wait_ms=round(max_wait * 1000),
        max_bytes=member.settings.fetch_bytes_max,
    )


def suspect(member: Member, follower: Follower) -> None:
    """The leader is probably gone: do not wait for the whole fetch timeout. One answer of its clears it."""
    if not follower.leader_suspected:
        follower.leader_suspected = True
        soon = member.now + member.settings.election_timeout * SUSPECTED_LEADER_FRACTION * member.random.random()
        follower.fetch_deadline = min(follower.fetch_deadline, soon)


def failed(member: Member, follower: Follower) -> None:
    """The request under way got no answer, or none of use."""
    follower.in_flight = None
    follower.next_request_at = member.now + member.settings.retry_backoff


def handle_response(member: Member, follower: Follower, answer: FetchResponse | FetchSnapshotResponse) -> None:
    """The answer to the request under way."""
    if answer.epoch != member.epoch or answer.leader != follower.leader_id:
        failed(member, follower)
        if answer.epoch == member.epoch and answer.leader == NOBODY:
            suspect(member, follower)  # It has resigned.
        return
    follower.in_flight = None
    follower.next_request_at = member.now
    follower.leader_responded, follower.leader_suspected = True, False
    follower.fetch_deadline = member.now + follower.fetch_timeout
    if isinstance(answer, FetchSnapshotResponse):
        is_of_use = _take_part(member, follower, answer)
    else:
        is_of_use = _take(member, follower, answer)
    if not is_of_use:
        failed(member, follower)


def _take(member: Member, follower: Follower, answer: FetchResponse) -> bool:
    """Whether there was something right in it. The leader's high watermark counts only where the logs agree
    (KAFKA-14704)."""
    if answer.diverging is not None:
        return _truncate(member, answer.diverging)
    if answer.snapshot is not None:
        follower.download = Download(answer.snapshot)
        return True
    if answer.records:
        try:
            member.log.append_as_follower(answer.records)
        except ValueError:
            return False
        member.sync()
    member.commit(min(answer.high_watermark, member.log.end_offset))
    return True


def _truncate(member: Member, theirs: EpochEnd) -> bool:
    """Cut back to the last point at which both logs may still agree; the next Fetch tells whether they do."""
    ours = member.log.end_offset_for(theirs.epoch)
    offset = min(ours.end_offset, theirs.end_offset) if ours.epoch == theirs.epoch else ours.end_offset
    if offset >= member.log.end_offset:
        return False
    if offset < member.high_watermark:
        raise Inconsistent(
            f"the leader of epoch {member.epoch} would have this node truncate its log to {offset}, but everything"
            f" before {member.high_watermark} is committed (KAFKA-12460)"
        )
    member.log.truncate_to(offset)
    return True


def _take_part(member: Member, follower: Follower, part: FetchSnapshotResponse) -> bool:
    """Whether the download may go on; the whole snapshot is installed at once."""
    download = follower.download
    assert download is not None, "a part was asked for"
    if part.size < 0 or part.snapshot != download.snapshot:
        follower.download = None
        return True
    if part.size > member.settings.snapshot_size_max:
        raise Inconsistent(f"a snapshot of {part.size} bytes: at most {member.settings.snapshot_size_max} are taken")
    is_next = part.position == len(download.data)
    is_new = bool(part.data) or part.size == 0
    if not is_next or not is_new or part.position + len(part.data) > part.size:
        return False
    download.data += part.data
    if len(download.data) == part.size:
        follower.download = None
        _install(member, download)
    return True


def _install(member: Member, download: Download) -> None:
    snapshot, data = download.snapshot, bytes(download.data)
    if snapshot.offset < member.high_watermark:
        raise Inconsistent(f"{snapshot} would undo what is committed up to {member.high_watermark}")
    member.log.start_at(snapshot, data)
    member.high_watermark = snapshot.offset
    member.sync()
    member.effects.append(Installed(snapshot, data))


def find_leader(member: Member, observer: Unattached) -> None:
    """SendRequest a voter, at random, whether it knows who leads."""
    observer.in_flight = _next_fetch(member, max_wait=0)
    observer.deadline = member.now + member.settings.request_timeout
    member.send(member.random.choice(member.others), observer.in_flight)


def retry_find_leader(member: Member, observer: Unattached) -> None:
    """The voter asked did not know, or did not answer."""
    observer.in_flight = None
    observer.deadline = member.now + member.settings.retry_backoff
