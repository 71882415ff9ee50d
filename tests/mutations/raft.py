"""Bugs in Raft that were published, or that the papers warn of."""

from mutations import Mutation

_TESTS = ("tests/controller/raft",)
_ELECTIONS = "controller/raft/elections.py"
_FOLLOWER = "controller/raft/raft_follower.py"
_LEADER = "controller/raft/raft_leader.py"
_MEMBER = "controller/raft/member.py"
_RAFT = "controller/raft/raft.py"
_VOTER_SET = "controller/raft/voter_set.py"

MUTATIONS = (
    Mutation(
        "a vote is sent before it is on disk",
        _MEMBER,
        "self._persist(replace(self.election, voted_for=candidate.id,",
        "self.election = (replace(self.election, voted_for=candidate.id,",
        _TESTS,
    ),
    Mutation(
        "a higher epoch is not persisted",
        _MEMBER,
        "self._persist(ElectionState(epoch))",
        "self.election = ElectionState(epoch)",
        _TESTS,
    ),
    Mutation(
        "a candidate requests votes before its own is on disk",
        _MEMBER,
        "self._persist(ElectionState(self.epoch + 1, voted_for=self.node_id,",
        "self.election = (ElectionState(self.epoch + 1, voted_for=self.node_id,",
        _TESTS,
    ),
    Mutation(
        "two votes in an epoch",
        _ELECTIONS,
        "member.election.leader == NO_NODE and member.can_vote_for(_candidate(vote))",
        "member.election.leader == NO_NODE",
        _TESTS,
    ),
    Mutation(
        "a vote for a candidate whose log is behind",
        _ELECTIONS,
        "if (vote.last_epoch, vote.last_offset) < (member.log.last_epoch, member.log.end_offset):",
        "if vote.last_offset < 0:",
        _TESTS,
    ),
    Mutation(
        "the longer log wins, whatever its last epoch",
        _ELECTIONS,
        "(vote.last_epoch, vote.last_offset) < (member.log.last_epoch, member.log.end_offset)",
        "vote.last_offset < member.log.end_offset",
        _TESTS,
    ),
    Mutation(
        "no pre-vote",
        _ELECTIONS,
        "        _start_pre_vote(member, state)",
        "        start_election(member)",
        _TESTS,
    ),
    Mutation(
        "a pre-vote is granted although there is a leader",
        _ELECTIONS,
        "return not _has_leader(member)",
        "return True",
        _TESTS,
    ),
    Mutation(
        "a pre-vote counts as a vote",
        _ELECTIONS,
        "    if state.ballot.sent.get(peer) is not vote:",
        "    if state.ballot.request.epoch < vote.epoch:",
        _TESTS,
    ),
    Mutation(
        "an observer votes",
        _ELECTIONS,
        "return member.is_voter and vote.candidate in member.others",
        "return vote.candidate in member.others",
        _TESTS,
    ),
    Mutation(
        "half of the voters are a majority",
        _VOTER_SET,
        "self.majority = len(listed) // 2 + 1",
        "self.majority = max(1, len(listed) // 2)",
        _TESTS,
    ),
    Mutation(
        "no check-quorum",
        _LEADER,
        "        member.become_resigned()\n        return",
        "        leader.resigns_at = member.now + 1.0",
        _TESTS,
    ),
    Mutation(
        "a single voter resigns for lack of followers",
        _MEMBER,
        "        if self.majority > self.is_voter:",
        "        if self.majority > 0:",
        _TESTS,
    ),
    Mutation(
        "records of earlier epochs are committed by counting",
        _LEADER,
        "if on_a_majority > max(leader.epoch_start, member.high_watermark):",
        "if on_a_majority > member.high_watermark:",
        _TESTS,
    ),
    Mutation(
        "the leader counts what it has not synced",
        _LEADER,
        "ends.append(leader.synced_end)",
        "ends.append(member.log.end_offset)",
        _TESTS,
    ),
    Mutation(
        "a follower acknowledges what it has not synced",
        _FOLLOWER,
        "        member.voters_changed()\n        follower.unsynced = member.sync()\n    member.commit",
        "        member.voters_changed()\n    member.commit",
        _TESTS,
    ),
    Mutation(
        "a follower gives up on its leader while its own disk works",
        "controller/raft/role_states.py",
        "        if self.unsynced is not None:\n            return inf\n",
        "",
        _TESTS,
    ),
    Mutation(
        "a follower that waited for its disk has no time left for the leader",
        _FOLLOWER,
        "    if not follower.leader_suspected:\n"
        "        follower.fetch_deadline = member.now + follower.fetch_timeout\n",
        "",
        _TESTS,
    ),
    Mutation(
        "a response overtakes the vote that it depends on",
        "controller/quorum/raft_driver.py",
        "or effect.waits_for_log or self._persisting:",
        "or effect.waits_for_log:",
        ("tests/controller/quorum/test_raft_driver.py",),
    ),
    Mutation(
        "a divergent fetch counts as an acknowledgement",
        _LEADER,
        "    divergence = find_divergence(",
        "    progress.end_offset = fetch.fetch_offset\n    divergence = find_divergence(",
        _TESTS,
    ),
    Mutation(
        "truncate to the high watermark",
        _FOLLOWER,
        "    if offset >= member.log.end_offset:",
        "    offset = member.high_watermark\n    if offset >= member.log.end_offset:",
        _TESTS,
    ),
    Mutation(
        "truncate to where the leader's epoch ends, though ours ended earlier",
        _FOLLOWER,
        "    offset = min(ours.end_offset, theirs.end_offset) if ours.epoch == theirs.epoch else ours.end_offset",
        "    offset = theirs.end_offset",
        _TESTS,
    ),
    Mutation(
        "truncate below the high watermark",
        _FOLLOWER,
        "    if offset < member.high_watermark:",
        "    if offset < 0:",
        _TESTS,
    ),
    Mutation(
        "a high watermark is used before the log is truncated",
        _FOLLOWER,
        "    if response.diverging is not None:\n",
        "    member.commit(min(response.high_watermark, member.log.end_offset))\n"
        "    if response.diverging is not None:\n",
        _TESTS,
    ),
    Mutation(
        "the leader's high watermark is used beyond the own log end",
        _FOLLOWER,
        "    member.commit(min(response.high_watermark, member.log.end_offset))",
        "    member.commit(response.high_watermark)",
        _TESTS,
    ),
    Mutation(
        "divergence is not detected",
        _LEADER,
        "    if end.epoch != last_fetched_epoch or end.end_offset < fetch_offset:",
        "    if end.end_offset < fetch_offset:",
        _TESTS,
    ),
    Mutation(
        "a fetch below the log start is served from the log",
        _LEADER,
        "    if fetch_offset < start or last_fetched_epoch < start_epoch or parts_at_start:",
        "    if parts_at_start:",
        _TESTS,
    ),
    Mutation(
        "the rest of the log is kept when a snapshot is installed",
        _FOLLOWER,
        "    member.log.start_at(snapshot, data)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "an installed snapshot is not synced",
        _FOLLOWER,
        "    member.high_watermark = snapshot.offset\n    follower.unsynced = member.sync()",
        "    member.high_watermark = snapshot.offset",
        _TESTS,
    ),
    Mutation(
        "a fetch of an earlier epoch is served",
        _RAFT,
        "if isinstance(member.state, Leader) and fetch.epoch == member.epoch:\n            raft_leader.handle_fetch(",
        "if isinstance(member.state, Leader):\n            raft_leader.handle_fetch(",
        _TESTS,
    ),
    Mutation(
        "a late response is taken for that to the latest request",
        _RAFT,
        "if isinstance(state, Follower) and state.in_flight is request:\n            raft_follower.handle_response",
        "if isinstance(state, Follower):\n            raft_follower.handle_response",
        _TESTS,
    ),
    Mutation(
        "a restarted leader leads its old epoch",
        _MEMBER,
        "            return Resigned(self._first_deadline())",
        "            return Leader(self.log.end_offset, {one: ReplicaProgress(self.now) for one in self.others}, 0.0)",
        _TESTS,
    ),
    Mutation(
        "a leader ignores a higher epoch",
        _RAFT,
        "            member.adopt(message.epoch)\n        if isinstance(message, Vote):",
        "            self.is_leader or member.adopt(message.epoch)\n        if isinstance(message, Vote):",
        _TESTS,
    ),
)
