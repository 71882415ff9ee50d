"""Bugs in the checks of what a client may do: one left out, one in another order, a name that is told."""

from mutations import TEST_ONLY, Mutation

_TESTS = ("tests/broker/apis/test_authorization.py",)

MUTATIONS = (
    Mutation(
        "whoever may read a topic may write to it",
        "broker/apis/produce.py",
        "AllowedTopics(context, AclOperation.WRITE)",
        "AllowedTopics(context, AclOperation.READ)",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "Produce tells who may not write whether a topic exists",
        "broker/apis/produce.py",
        "and name not in appends.writable:",
        "and name in context.services.image.topics and name not in appends.writable:",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a transactional id needs no permission",
        "broker/apis/produce.py",
        "    check_transactional_id(appends.context, AclOperation.WRITE, transactional_id)\n",
        "",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a refused topic ends the wait of a fetch for the others",
        "broker/apis/fetch.py",
        "            self.refused += 1\n",
        "            self.urgent = True\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "clients that take all fetch sessions keep followers from having one",
        "broker/partitions/fetch_sessions.py",
        "            evicted = next(of_clients, None) if for_follower else None\n",
        "            evicted = None\n",
        ("tests/broker/partitions/test_fetch_sessions.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a fetch session goes on with a topic that the client may no longer read",
        "broker/apis/fetch.py",
        "        await in_steps(refuse_unreadable(session, fetcher.readable))\n",
        "        pass\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a client with READ fetches as a follower",
        "broker/apis/fetch_access.py",
        "    if not follows:\n        return AllowedTopics",
        "    if True:\n        return AllowedTopics",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "Metadata of all topics names those that the client may not describe",
        "broker/apis/metadata.py",
        "        names = [name for name in names if name in visible]\n",
        "",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a topic is created for a client that may only describe it",
        "broker/apis/metadata.py",
        "if creatable is not None and name not in services.image.topics and name not in creatable:",
        "if False:",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "TxnOffsetCommit looks at the group before the transactional id",
        "broker/apis/txn_offset_commit.py",
        "    check_transactional_id(context, AclOperation.WRITE, request.transactional_id)\n"
        "    check_group(context, AclOperation.READ, request.group_id)\n",
        "    check_group(context, AclOperation.READ, request.group_id)\n"
        "    check_transactional_id(context, AclOperation.WRITE, request.transactional_id)\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "all offsets of a group are told, also of hidden topics",
        "broker/apis/offset_fetch.py",
        "        response.topics = [topic for topic in response.topics if topic.name in visible]\n",
        "        pass\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "whoever may write to a topic gets no producer id without IDEMPOTENT_WRITE",
        "broker/apis/init_producer_id.py",
        "allowed = access.allows_any(AclOperation.WRITE, AclResourceType.TOPIC)",
        "allowed = False",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a regular expression finds topics that the member may not describe",
        "broker/coordinator/groups/group_coordinator.py",
        "names = await _described(list(self._image.topics), access)",
        "names = list(self._image.topics)",
        _TESTS,
        seeds=TEST_ONLY,
    ),
)
