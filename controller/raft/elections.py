"""Elections: who stands, who grants, who wins.

A node first asks whether it *would* be voted for (pre-vote, KIP-996; Ongaro's dissertation, 9.6). Only with a
majority's yes does it begin a new epoch, so that a node that was cut off comes back in the epoch that it had, and
deposes nobody.
"""

from minikafka.controller.raft import raft_leader
from minikafka.controller.raft.election_state import NOBODY
from minikafka.controller.raft.member import Member
from minikafka.controller.raft.messages import Vote, VoteResponse
from minikafka.controller.raft.role_states import Candidate, Follower, Leader, Prospective, Resigned, Unattached


def grants(member: Member, vote: Vote) -> bool:
    """Whether this node votes for the candidate, or would."""
    if vote.epoch < member.epoch or not member.is_voter or vote.candidate not in member.others:
        return False
    if (vote.last_epoch, vote.last_offset) < (member.log.last_epoch, member.log.end_offset):
        return False  # It may lack what is committed (Raft, section 5.4.1).
    if vote.pre_vote:
        return not _has_leader(member)
    return member.election.leader == NOBODY and member.election.voted_for in (NOBODY, vote.candidate)


def _has_leader(member: Member) -> bool:
    state = member.state
    return isinstance(state, Leader) or (isinstance(state, Follower) and state.has_leader(member.now))


def handle_vote(member: Member, vote: Vote) -> VoteResponse:
    """Vote, and say so; the vote is persisted first. Whoever grants names no leader: it has lost faith in it."""
    granted = grants(member, vote)
    if granted and vote.pre_vote:
        _yield(member, vote)
    elif granted:
        member.vote_for(vote.candidate)
    return VoteResponse(member.epoch, NOBODY if granted else member.leader_id, granted)


def _yield(member: Member, vote: Vote) -> None:
    """Let another stand first, lest two of a kind split the votes between them.

    Only for a moment, and once: it may fail. Of two that ask each other at the same time the one with the lower id, or
    the better log, goes first. This is a courtesy, on which no promise rests.
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
    """Of random length, so that those who got in each other's way do so no more."""
    return member.settings.election_timeout * (0.25 + 0.5 * member.random.random())


def count_response(member: Member, peer: int, vote: Vote, answer: VoteResponse) -> None:
    """A voter's answer. One from an earlier round says nothing any more."""
    state = member.state
    if not isinstance(state, Prospective | Candidate) or state.ballot is None or state.ballot.request is not vote:
        return
    if answer.epoch != vote.epoch or peer not in member.others:
        return
    state.ballot.record(peer, granted=answer.granted)
    _conclude(member, state)


def count_failure(member: Member, peer: int, vote: Vote) -> None:
    """Who cannot be reached does not vote, so that a round need not be waited for that nobody can win any more."""
    state = member.state
    if isinstance(state, Prospective | Candidate) and state.ballot is not None and state.ballot.request is vote:
        state.ballot.record(peer, granted=False)
        _conclude(member, state)


def _conclude(member: Member, state: Prospective | Candidate) -> None:
    """Go on as soon as the ballot is decided, one way or the other."""
    assert state.ballot is not None, "it was asked for"
    if state.ballot.is_won(member.majority):
        if isinstance(state, Prospective):
            stand(member)
        else:
            raft_leader.begin(member, sorted(state.ballot.granted))
    elif state.ballot.is_lost(member.majority, len(member.voters)):
        _lose(member, state)


def stand(member: Member) -> None:
    """Begin a new epoch as its candidate."""
    member.become_candidate()
    candidate = member.state
    assert isinstance(candidate, Candidate), "it has just become one"
    _conclude(member, candidate)


def _lose(member: Member, state: Prospective | Candidate) -> None:
    """Try again after a pause."""
    again = member.now + _election_backoff(member)
    if isinstance(state, Prospective):
        state.deadline = min(state.deadline, again)
    else:
        member.become_prospective(deadline=again)


def due(member: Member, state: Unattached | Prospective | Candidate | Resigned) -> None:
    """An election timeout has passed."""
    if isinstance(state, Prospective):
        _ask_whether_to_stand(member, state)
    else:
        member.become_prospective(deadline=member.now)


def _ask_whether_to_stand(member: Member, state: Prospective) -> None:
    if state.reported_leader != NOBODY:
        member.become_follower(state.reported_leader)
        return
    state.lost_leader = NOBODY if state.ballot else state.lost_leader
    state.deadline = member.election_deadline()
    state.ballot = member.ballot(pre_vote=True)
    member.ask_for_votes(state.ballot)
    _conclude(member, state)
