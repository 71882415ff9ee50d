"""Bugs in voters that come and go (KIP-853), most of them published of Raft implementations or warned of.

Those that a simulation can show are measured with it, of Raft alone or of clusters whose voters come and go (`python -m
mutations.seeds membership --simulation raft`, or `voters`); the others are bugs of smaller parts, which tests show.
"""

from mutations import TEST_ONLY, Mutation

_TESTS = ("tests/controller/raft",)
_QUORUM = ("tests/controller/test_dynamic_quorum.py",)
_CHANGES = "controller/raft/voter_changes.py"
_ELECTIONS = "controller/raft/elections.py"
_FOLLOWER = "controller/raft/raft_follower.py"
_HISTORY = "controller/raft/voter_history.py"
_LEADER = "controller/raft/raft_leader.py"
_MEMBER = "controller/raft/member.py"
_VOTER_SET = "controller/raft/voter_set.py"
_FORMAT = "broker/node/format.py"
_FORMATS = ("tests/broker/node/test_format.py",)
_DESCRIBE = "broker/apis/describe_quorum.py"
_HANDLERS = "broker/apis/raft_voters.py"
_CONVERSATIONS = ("tests/conversations/test_dynamic_quorum.py",)

MUTATIONS = (
    Mutation(
        "a member that may not read a topic leaves the group",
        "client/groups/consumer_membership.py",
        "    ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.REPORT,\n",
        "",
        ("tests/client/groups/test_removed_members.py::test_a_member_that_may_not_read_a_topic_reports_it_and_stays_a_member",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a member that may not read a topic does not say so",
        "client/groups/consumer_session.py",
        "        if reaction is Reaction.REPORT:\n",
        "        if False:\n",
        ("tests/client/groups/test_removed_members.py::test_a_member_that_may_not_read_a_topic_reports_it_and_stays_a_member",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a change of the voters begins before the last one is committed",
        _CHANGES,
        "    if latest.offset >= member.high_watermark:",
        "    if latest.offset > member.log.end_offset:",
        _TESTS,
        seeds=2,
        simulation="raft",
    ),
    Mutation(
        "a leader changes voters before it has committed a record of its epoch",
        _CHANGES,
        "    if member.high_watermark <= leader.epoch_start:",
        "    if member.high_watermark < 0:",
        _TESTS,
        seeds=95,
        simulation="raft",
    ),
    Mutation(
        "a truncation leaves the voters that it takes back in force",
        _HISTORY,
        "while len(self.entries) > 1 and self.entries[-1].offset >= offset:",
        "while len(self.entries) > 1 and self.entries[-1].offset > offset + 1000:",
        _TESTS,
        TEST_ONLY,
    ),
    Mutation(
        "a follower takes no notice of the voters that it appends",
        _FOLLOWER,
        "                follower.unsynced = member.sync()\n        member.voters_changed()\n",
        "                follower.unsynced = member.sync()\n",
        _TESTS,
        seeds=1,
        simulation="voters",
    ),
    Mutation(
        "a snapshot takes over no voters",
        _FOLLOWER,
        "    member.log.start_at(snapshot, data)\n    member.voters_changed()\n",
        "    member.log.start_at(snapshot, data)\n",
        _TESTS,
        TEST_ONLY,
    ),
    Mutation(
        "a replaced disk counts as the voter that it replaces",
        _VOTER_SET,
        "return key.id == self.key.id and self.key.directory_id in (NO_DIRECTORY, key.directory_id)",
        "return key.id == self.key.id",
        _TESTS,
        seeds=113,
        simulation="raft",
    ),
    Mutation(
        "a node with a new disk votes in place of the old one",
        _ELECTIONS,
        "        return vote.voter_directory == member.key.directory_id",
        "        return True",
        _TESTS,
        seeds=145,
        simulation="raft",
    ),
    Mutation(
        "two votes in an epoch for two disks of one node",
        _MEMBER,
        "return voted.id == NO_NODE or voted == candidate",
        "return voted.id in (NO_NODE, candidate.id)",
        _TESTS,
        TEST_ONLY,
    ),
    Mutation(
        "a leader that is no voter counts itself",
        _LEADER,
        "    if member.is_voter:\n        ends.append(leader.synced_end)",
        "    if member.majority:\n        ends.append(leader.synced_end)",
        _TESTS,
        seeds=2,
        simulation="raft",
    ),
    Mutation(
        "a leader that removed itself leads on",
        _LEADER,
        "            leader.resigns_at = member.now\n",
        "            pass\n",
        _TESTS,
        TEST_ONLY,
    ),
    Mutation(
        "a voter that is being removed starts no elections",
        _MEMBER,
        "        if self.is_voter or not self.kraft_version:\n            return self.is_voter\n",
        "        if self.majority:\n            return self.is_voter\n",
        _TESTS,
        seeds=477,
        simulation="raft",
    ),
    Mutation(
        "a candidate that is no voter counts its own vote",
        _MEMBER,
        "{self.node_id} if self.is_voter else set()",
        "{self.node_id}",
        _TESTS,
        seeds=530,
        simulation="raft",
    ),
    Mutation(
        "a voter that lags is added",
        _CHANGES,
        "if not caught_up or fetched_at is None or",
        "if fetched_at is not None and",
        _TESTS,
        TEST_ONLY,
    ),
    Mutation(
        "the acknowledgements of a static quorum count for directories that they did not name",
        _LEADER,
        "        key.id: known.pop(key) if key in known else ReplicaProgress(contact=member.now)",
        "        key.id: leader.voters.get(key.id) or known.pop(key, ReplicaProgress(contact=member.now))",
        _TESTS,
        TEST_ONLY,
    ),
    Mutation(
        "a voter that does not know the candidate refuses it",
        _ELECTIONS,
        "        return vote.voter_directory == member.key.directory_id",
        "        return member.is_voter and vote.candidate in member.others",
        _TESTS,
        TEST_ONLY,
    ),
    Mutation(
        "the snapshot of a node names no voters",
        "controller/quorum/metadata_applier.py",
        "snapshot_content(records_of(self.image), voters)",
        "snapshot_content(records_of(self.image))",
        _QUORUM,
        TEST_ONLY,
    ),
    Mutation(
        "the election state of a dynamic quorum forgets the directory",
        "controller/raft/election_state.py",
        "_directory_of(fields) if version == DYNAMIC else NO_DIRECTORY",
        "NO_DIRECTORY",
        ("tests/controller/raft/test_election_state.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a decision after a change of the voters has the offset of before",
        "controller/active/leadership_term.py",
        "            self._end_offset = end_offset - sum(len(pending.records) for pending in decided)\n",
        "",
        ("tests/controller/active/test_leadership_term.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a directory counts as formatted before its first voters are written",
        _FORMAT,
        "        directory_id, kind = new_directory_id(random), \"data\"\n",
        "        directory_id, kind = new_directory_id(random), \"data\"\n"
        "        self._write_properties(directory, directory_id)\n",
        _FORMATS,
        TEST_ONLY,
    ),
    Mutation(
        "a voter of the list has another directory than the list says",
        _FORMAT,
        "                directory_id, kind = own.key.directory_id, \"dynamic metadata voter\"",
        "                kind = \"dynamic metadata voter\"",
        _FORMATS,
        TEST_ONLY,
    ),
    Mutation(
        "a voter is added without an address at the listener of the controllers",
        _HANDLERS,
        "    if not _has_listener(request.listeners, listener):",
        "    if not request.listeners:",
        _CONVERSATIONS,
        TEST_ONLY,
    ),
    Mutation(
        "the quorum is described without the directories of its replicas",
        _DESCRIBE,
        "        replica_directory_id=replica.directory_id,\n",
        "",
        _CONVERSATIONS,
        TEST_ONLY,
    ),
    Mutation(
        "the address of a leader in the log is tried again and again, though another one was told",
        "controller/quorum/learned_addresses.py",
        "(one for one in found if one != self.last_failed.get(node_id))",
        "iter(found)",
        ("tests/controller/quorum/test_peers.py", "tests/controller/quorum/test_learned_addresses.py"),
        TEST_ONLY,
    ),
)
