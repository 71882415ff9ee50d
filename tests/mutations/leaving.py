"""Planted bugs in what a consumer that is left, or an outage, leaves behind, and in the places of its records."""

from mutations import TEST_ONLY, Mutation

MUTATIONS = (
    Mutation(
        "a topic counts as deleted seconds after one answer, though none has come since",
        "client/consumer/lacking_topics.py",
        "lacking[1] - lacking[0] >=",
        "__import__(\"anyio\").current_time() - lacking[0] >=",
        ("tests/client/consumer/test_lacking_topics.py::test_an_outage_after_one_answer_that_lacks_the_topic_deletes_nothing",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "positions in a deleted topic are left out of a commit without a word",
        "client/consumer/offset_commits.py",
        "                if is_repeated:\n",
        "                if True:\n",
        ("tests/client/consumer/test_lacking_topics.py::test_positions_in_a_deleted_topic_are_left_out_of_a_commit_with_a_warning",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a consumer whose unsubscribe fails reads on without being a member",
        "client/consumer/subscription.py",
        "        finally:  # Without the group,",
        "        except SystemExit:\n            raise\n        else:  # Without the group,",
        ("tests/client/groups/test_unsubscribing.py",),
        TEST_ONLY,
    ),
    Mutation(
        "without a group a subscribe that fails is in effect",
        "client/consumer/subscription.py",
        "            if self._choice is choice:\n",
        "            if self._choice is not choice:\n",
        ("tests/client/groups/test_unsubscribing.py",),
        TEST_ONLY,
    ),
    Mutation(
        "without a group a subscribe that waits for a topic reads the others",
        "client/consumer/subscription.py",
        " and self._choice is self._choice_read:",
        ":",
        ("tests/client/groups/test_unsubscribing.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a consumer that is left while its join is in flight stays a member",
        "client/groups/consumer_membership.py",
        "        if self.epoch < _JOINING and not self._may_have_joined:\n",
        "        if self.epoch < _JOINING:\n",
        ("tests/client/groups/test_left_while_joining.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a member's leaving overtakes its join on another connection",
        "client/groups/consumer_session.py",
        "            await self._request(request, _LEAVE_TIMEOUT_MS)\n",
        "            connection = await self._cluster.connection(await self._cluster.coordinator(self.group_id))\n"
        "            await connection.request(request, timeout_ms=_LEAVE_TIMEOUT_MS)\n",
        ("tests/client/groups/test_left_while_joining.py",),
        TEST_ONLY,
    ),
    Mutation(
        "the place of a record is what an interceptor says",
        "client/blocking/consumer.py",
        "_Intercepted(one.topic, one.partition, one.offset, on",
        "_Intercepted(\"another\", one.partition, one.offset, on",
        ("tests/client/test_interceptors.py",),
        TEST_ONLY,
    ),
    Mutation(
        "the interceptors of a blocking loop get all records of a poll",
        "client/blocking/consumer.py",
        "[] for _ in records[1:])] if at_once else",
        "[] for _ in records[1:])] if True else",
        ("tests/client/test_interceptors.py",),
        TEST_ONLY,
    ),
    Mutation(
        "portions of a loop's records grow however long they take",
        "client/consumer/iteration.py",
        "            if now - before > _PORTION_S:\n",
        "            if False:\n",
        ("tests/client/consumer/test_turns.py",),
        TEST_ONLY,
    ),
)
