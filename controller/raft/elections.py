"""Elections: granting and counting votes, starting a candidacy, and the pause after a lost election.

A node first asks the voters whether they *would* vote for it (pre-vote, KIP-996; Ongaro's dissertation, 9.6). Only if a
majority would does it begin a new epoch. A node that was partitioned therefore comes back in its old epoch, and does
not depose the leader.
"""

from minikafka.controller.raft import raft_leader
from minikafka.controller.raft.election_state import NO_NODE
from minikafka.controller.raft.member import Member
from minikafka.controller.raft.messages import Vote, VoteResponse
from minikafka.controller.raft.role_states import Candidate, Follower, Leader, Prospective, Resigned, Unattached
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey


def grants(member: Member, vote: Vote) -> bool:
    """Whether this node votes for the candidate, or would after a pre-vote."""
    if vote.epoch != member.epoch or not _is_for_this_voter(member, vote):
        return False
    if (vote.last_epoch, vote.last_offset) < (member.log.last_epoch, member.log.end_offset):
        return False  # Its log may lack committed records (Raft, section 5.4.1).
    if vote.pre_vote:
        return not has_leader(member)
    return member.election.leader == NO_NODE and member.can_vote_for(_candidate(vote))


def _is_for_this_voter(member: Member, vote: Vote) -> bool:
    """Whether the candidate may count the vote of this node.

    In a dynamic quorum the candidate's log determines the voters, and it may be newer than this node's log: this node
    may not know yet that it is a voter, or that the candidate is a voter (KIP-853; Ongaro's dissertation, 4.1).
    """
    if vote.voter_directory != NO_DIRECTORY:
        return vote.voter_directory == member.key.directory_id
    return member.is_voter and vote.candidate in member.others


def _candidate(vote: Vote) -> ReplicaKey:
    return ReplicaKey(vote.candidate, vote.candidate_directory)


def has_leader(member: Member) -> bool:
    """Whether this node leads, or follows a leader that is up."""
    state = member.state
    return isinstance(state, Leader) or (isinstance(state, Follower) and state.has_leader(member.now))


def handle_vote(member: Member, vote: Vote) -> VoteResponse:
    """Handle a vote request; a vote is persisted before the response. A response that grants names no leader."""
    granted = grants(member, vote)
    if granted and vote.pre_vote:
        _yield(member, vote)
    elif granted:
        member.vote_for(_candidate(vote))
    return VoteResponse(member.epoch, NO_NODE if granted else member.leader_id, granted)


def _yield(member: Member, vote: Vote) -> None:
    """Delay this node's own pre-vote in favour of another voter's, so that the two do not split the votes.

    The delay is short and happens once, because the other voter may fail. If two voters ask each other at the same
    time, the voter with the better log goes first, or else the voter with the lower id. This is an optimization: safety
    does not depend on it.
    """
    state = member.state
    if not isinstance(state, Unattached | Follower | Prospective) or state.has_yielded:
        return
    until = member.now + _election_backoff(member)
    if isinstance(state, Follower):
        state.fetch_deadline = max(state.fetch_deadline, until)
    elif isinstance(state, Unattached) or state.ballot is None:
        state.deadline = max(state.deadline, until)
    elif _rank(vote) > _rank(state.ballot.request):
        state.ballot, state.deadline = None, until
    else:
        return
    state.has_yielded = True


def _rank(vote: Vote) -> tuple[int, int, int]:
    return vote.last_epoch, vote.last_offset, -vote.candidate


def _election_backoff(member: Member) -> float:
    """The pause before the next attempt; random, so that two candidates do not collide again."""
    return member.settings.election_timeout * (0.25 + 0.5 * member.random.random())


def count_response(member: Member, peer: int, vote: Vote, response: VoteResponse) -> None:
    """Count a voter's response. A response from an earlier round is ignored."""
    state = member.state
    if not isinstance(state, Prospective | Candidate) or state.ballot is None:
        return
    if state.ballot.sent.get(peer) is not vote:
        return
    if response.epoch != vote.epoch or peer not in member.others:
        return
    state.ballot.record(peer, granted=response.granted)
    _conclude(member, state)


def count_failure(member: Member, peer: int, vote: Vote) -> None:
    """Count an unreachable voter as a refusal, so that a round that cannot be won ends at once."""
    state = member.state
    if isinstance(state, Prospective | Candidate) and state.ballot is not None and state.ballot.sent.get(peer) is vote:
        state.ballot.record(peer, granted=False)
        _conclude(member, state)


def _conclude(member: Member, state: Prospective | Candidate) -> None:
    """Proceed as soon as the ballot is won or lost."""
    assert state.ballot is not None, "a ballot was started"
    if state.ballot.is_won(member.majority):
        if isinstance(state, Prospective):
            start_election(member)
        else:
            raft_leader.begin(member, sorted(state.ballot.granted))
    elif state.ballot.is_lost(member.majority, len(member.voters)):
        _lose(member, state)


def start_election(member: Member) -> None:
    """Begin a new epoch as its candidate."""
    member.become_candidate()
    candidate = member.state
    assert isinstance(candidate, Candidate), "become_candidate sets it"
    _conclude(member, candidate)


def _lose(member: Member, state: Prospective | Candidate) -> None:
    """Try again after a pause: the election was lost."""
    again = member.now + _election_backoff(member)
    if isinstance(state, Prospective):
        state.deadline = min(state.deadline, again)
    else:
        member.become_prospective(deadline=again)


def due(member: Member, state: Unattached | Prospective | Candidate | Resigned) -> None:
    """Act on an election timeout that has passed: start a pre-vote, or become prospective."""
    if isinstance(state, Prospective):
        _start_pre_vote(member, state)
    else:
        member.become_prospective(deadline=member.now)


def _start_pre_vote(member: Member, state: Prospective) -> None:
    if state.reported_leader != NO_NODE:
        member.become_follower(state.reported_leader)
        return
    state.lost_leader = NO_NODE if state.ballot else state.lost_leader
    state.deadline = member.election_deadline()
    state.ballot = member.ballot(pre_vote=True)
    member.ask_for_votes(state.ballot)
    _conclude(member, state)
