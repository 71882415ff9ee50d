"""The rules of a leader that adds, removes and updates voters, one change at a time (KIP-853).

Two sets of voters that differ in one voter have no disjoint majorities, and a set is replaced only once its record is
committed in the leader's own epoch: otherwise two leaders could each have a majority (Ongaro's dissertation, 4.1, and
the erratum that he published in 2015). The errors and texts are Kafka's. Source: Kafka's `AddVoterHandler`,
`RemoveVoterHandler`, `UpdateVoterHandler`.
"""

from minikafka.controller.raft.member import Member
from minikafka.controller.raft.raft_leader import append_voters
from minikafka.controller.raft.role_states import Leader
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey, Voter, VoterSet
from minikafka.protocol.errors import (
    DuplicateVoterError,
    InvalidRequestError,
    InvalidUpdateVersionError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
    UnsupportedVersionError,
    VoterNotFoundError,
)

CAUGHT_UP_WITHIN_S = 3600.0
"""The time in seconds within which a replica must have fetched to be added as a voter."""


def check_new(member: Member, key: ReplicaKey) -> Leader:
    """Check that a replica can be added now; return the state of the leader. Raises KafkaError."""
    leader = _ready(member, "adding voter")
    if member.voter_set.get(key.id) is not None:
        raise DuplicateVoterError(f"The voter id for {key} is already part of the set of voters {_keys(member)}.")
    return leader


def add(member: Member, voter: Voter) -> None:
    """Add a voter that has caught up. Raises KafkaError."""
    leader = check_new(member, voter.key)
    if voter.key.directory_id == NO_DIRECTORY:
        raise InvalidRequestError(f"{voter.key} has no directory id")
    _check_version(member, voter)
    progress = leader.observers.get(voter.key)
    fetched_at = None if progress is None else progress.fetched_at
    caught_up = progress is not None and progress.caught_up_at is not None
    if not caught_up or fetched_at is None or fetched_at <= member.now - CAUGHT_UP_WITHIN_S:
        raise RequestTimedOutError(f"Aborted add voter operation for {voter.key} since it is lagging behind")
    append_voters(member, leader, [member.voter_set.with_voter(voter)])


def remove(member: Member, key: ReplicaKey) -> None:
    """Remove a voter, but not the last one. Raises KafkaError."""
    leader = _ready(member, "removing voter")
    voter = member.voter_set.get(key.id)
    if voter is None or voter.key != key or len(member.voter_set) == 1:
        raise VoterNotFoundError(f"Cannot remove voter {key} from the set of voters {_keys(member)}")
    append_voters(member, leader, [member.voter_set.without(key.id)])


def update(member: Member, voter: Voter) -> None:
    """Change a voter's addresses and supported versions. Raises KafkaError."""
    leader = _ready(member, "updating voter")
    _check_version(member, voter)
    if not voter.endpoints:
        raise InvalidRequestError(f"{voter.key} has no address")
    known = member.voter_set.get(voter.key.id)
    if known is None or known.key != voter.key:
        raise VoterNotFoundError(f"Cannot update voter {voter.key} in the set of voters {_keys(member)}")
    if known != voter:
        append_voters(member, leader, [member.voter_set.with_voter(voter)])


def upgrade(member: Member, voters: VoterSet) -> None:
    """Make the static quorum a dynamic one, with the same voters. Raises KafkaError."""
    leader = check_upgrade(member, voters)
    if not member.kraft_version:
        append_voters(member, leader, [1, voters])


def check_upgrade(member: Member, voters: VoterSet) -> Leader:
    """Check that the quorum can become dynamic; return the state of the leader. Raises KafkaError."""
    leader = _established(member)
    if member.kraft_version:
        return leader
    if voters.ids != member.voters or any(key.directory_id == NO_DIRECTORY for key in voters.keys):
        raise InvalidUpdateVersionError("Invalid upgrade of kraft.version from version 0 to 1")
    if not all(voter.supports(1) for voter in voters):
        raise InvalidUpdateVersionError(
            "Invalid upgrade of kraft.version to 1 because not all of the voters support it"
        )
    return leader


def _ready(member: Member, what: str) -> Leader:
    """The state of the leader, if it may replace the voters. Raises KafkaError."""
    leader = _established(member)
    if not member.kraft_version:
        raise UnsupportedVersionError(
            f"Cluster doesn't support {what} because the kraft.version feature is {member.kraft_version}"
        )
    latest = member.log.history.latest
    if latest.offset >= member.high_watermark:
        raise RequestTimedOutError(
            "Request timed out waiting for voters to commit the latest voter change at "
            f"Optional[{latest.offset}] with HWM {member.high_watermark}"
        )
    return leader


def _established(member: Member) -> Leader:
    """The state of the leader, if it has committed a record of its epoch, and thereby all changes of earlier leaders.
    Raises KafkaError."""
    leader = member.state
    if not isinstance(leader, Leader):
        raise NotLeaderOrFollowerError
    if member.high_watermark <= leader.epoch_start:
        raise RequestTimedOutError(
            "Request timed out waiting for leader to establish HWM and fence previous voter changes"
        )
    return leader


def _check_version(member: Member, voter: Voter) -> None:
    if not voter.supports(member.kraft_version):
        raise InvalidRequestError(
            f"Aborted add voter operation for {voter.key} since the kraft.version range (min: {voter.min_version}, "
            f"max: {voter.max_version}) doesn't support the finalized version {member.kraft_version}"
        )


def _keys(member: Member) -> str:
    return f"[{', '.join(map(str, member.voter_set.keys))}]"
