"""Planted bugs in groups of both protocols: in the coordinator's decisions and its state."""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_CONSUMER = "broker/coordinator/groups/consumer/"
_CLASSIC = "broker/coordinator/groups/classic/"
_STATE = "broker/coordinator/groups/state/"
_STORIES = "tests/simulation/test_group_stories.py"
_CLASSIC_MACHINE = ("tests/broker/coordinator/groups/test_group_machine.py",)
_MACHINE = ("tests/broker/coordinator/groups/consumer/test_consumer_group_machine.py",)

MUTATIONS = (
    Mutation(
        "a member receives partitions that another one has not released",
        _CONSUMER + "current_assignment.py",
        "if one in returning or goal.owner_of(topic_id, one) is None)",
        "if one not in ())",
        (f"{_STORIES}::test_members_come_and_go_and_no_partition_has_two_or_none",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a group does not notice that its topics have changed",
        _CONSUMER + "subscribed_topics.py",
        "    return seen.topics != topics_seen(image, group.subscribed_topics)\n",
        "    return False\n",
        (f"{_STORIES}::test_members_come_and_go_and_no_partition_has_two_or_none",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a new group epoch gets no new target assignment",
        _CONSUMER + "target_assignment.py",
        "    if group.assignment_epoch >= epoch or too_early:\n",
        "    if group.assignment_epoch > 1 or too_early:\n",
        _MACHINE,
        seeds=5,
    ),
    Mutation(
        "a heartbeat of an earlier epoch is accepted",
        _CONSUMER + "membership.py",
        "    if epoch in (0, member.epoch):\n",
        "    if epoch <= member.epoch:\n",
        _MACHINE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a member that says what it has gives up all that it was told to",
        _CONSUMER + "current_assignment.py",
        "    if owned is None:\n        return True\n    return any(not numbers.isdisjoint("
        "partitions.get(topic_id, ())) for topic_id, numbers in owned.items())\n",
        "    return owned is None\n",
        (f"{_STORIES}::test_members_come_and_go_and_no_partition_has_two_or_none",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a member that goes raises no group epoch",
        _CONSUMER + "leaving.py",
        "write_epoch(builder, group.group_id, group.epoch + 1, metadata_hash(",
        "write_epoch(builder, group.group_id, group.epoch, metadata_hash(",
        (f"{_STORIES}::test_members_come_and_go_and_no_partition_has_two_or_none",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the partitions of a member that is gone are not released",
        _STATE + "consumer_group.py",
        "            self._release(self.members.pop(member_id, None))\n",
        "            self.members.pop(member_id, None)\n",
        ("tests/broker/coordinator/groups/consumer/test_state_from_the_log.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "partitions that a member gives up stay its own",
        _STATE + "consumer_group.py",
        "            known = ConsumerMember(member_id)\n        self._release(known)\n",
        "            known = ConsumerMember(member_id)\n",
        _MACHINE,
        seeds=1,
    ),
    Mutation(
        "a static member that comes back has no target",
        _CONSUMER + "membership.py",
        "    write_target(builder, group, member_id, group.targets.get(known.member_id, {}))\n",
        "    write_target(builder, group, member_id, {})\n",
        _MACHINE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a second member with an instance id takes the place of the first",
        _CONSUMER + "membership.py",
        "known.classic is None and known.epoch != LEFT_FOR_A_WHILE:",
        "known.classic is None and known.epoch > 1 << 30:",
        (f"{_STORIES}::test_a_second_process_with_an_instance_id",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "expressions are not resolved again when there are new topics",
        _CONSUMER + "subscription_changes.py",
        "    new_topics = group.patterns_seen != newest_topic(builder.state.image)\n",
        "    new_topics = False\n",
        (f"{_STORIES}::test_a_topic_that_matches_is_assigned_when_it_is_created",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the range assignor puts static members last",
        _CONSUMER + "assignors.py",
        "    return member.instance_id is None, string_order(",
        "    return member.instance_id is not None, string_order(",
        _MACHINE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the uniform assignor takes partitions from members for which there is room",
        _CONSUMER + "assignors.py",
        "_kept_and_revoked(members[member_id].target, wanted, quota + (extra > 0))",
        "_kept_and_revoked(members[member_id].target, wanted, quota)",
        ("tests/broker/coordinator/groups/consumer/test_assignors.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a heartbeat of an earlier generation renews the session",
        _CLASSIC + "heartbeat_and_leave.py",
        "    if request.generation_id != group.generation:\n",
        "    if request.generation_id > group.generation:\n",
        _CLASSIC_MACHINE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a member that leaves causes no rebalance",
        _CLASSIC + "heartbeat_and_leave.py",
        "        return\n    if group.state in (STABLE, COMPLETING_REBALANCE):\n",
        "        return\n    if group.state is COMPLETING_REBALANCE:\n",
        (f"{_STORIES}::test_members_come_and_go_and_no_partition_has_two_or_none",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "an assignment of an earlier generation is accepted",
        _CLASSIC + "classic_sync.py",
        "    if request.generation_id != group.generation:\n",
        "    if request.generation_id > group.generation:\n",
        _CLASSIC_MACHINE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a generation begins under the number of the one before",
        _CLASSIC + "rebalance.py",
        "    group.generation += 1\n    group.protocol_name",
        "    group.generation += group.generation == 0\n    group.protocol_name",
        _CLASSIC_MACHINE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the id that a static member had is not fenced",
        _CLASSIC + "classic_join.py",
        "    candidate = replace(known, member_id=new_id, protocols=candidate.protocols)\n",
        "    candidate = replace(known, protocols=candidate.protocols)\n    new_id = old_id\n",
        (f"{_STORIES}::test_a_second_process_with_an_instance_id",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a static member that returns with its id has no session",
        "broker/coordinator/groups/state/shard_state.py",
        "            self._cancel_member(key.group_id, key.member_id, *REBALANCE_DEADLINES)\n",
        "            self._cancel_member(key.group_id, key.member_id)\n",
        ("tests/broker/coordinator/groups/consumer/test_static_members.py",),
        seeds=TEST_ONLY,
    ),
)
