"""Planted bugs in consumer groups of the new protocol: in the coordinator's decisions."""

from mutations import Mutation

_CONSUMER = "broker/coordinator/groups/consumer/"
_MACHINE = ("tests/broker/coordinator/groups/consumer/test_consumer_group_machine.py",)

MUTATIONS = (
    Mutation(
        "a member receives partitions that another one has not released",
        _CONSUMER + "current_assignment.py",
        "if one in returning or goal.owner_of(topic_id, one) is None)",
        "if one not in ())",
        _MACHINE,
    ),
    Mutation(
        "a group does not notice that its topics have changed",
        _CONSUMER + "subscribed_topics.py",
        "    return seen.topics != topics_seen(image, group.subscribed_topics)\n",
        "    return False\n",
        _MACHINE,
    ),
    Mutation(
        "a new group epoch gets no new target assignment",
        _CONSUMER + "target_assignment.py",
        "    if group.assignment_epoch >= epoch or too_early:\n",
        "    if group.assignment_epoch > 1 or too_early:\n",
        _MACHINE,
    ),
    Mutation(
        "a heartbeat of an earlier epoch is accepted",
        _CONSUMER + "membership.py",
        "    if epoch in (0, member.epoch):\n",
        "    if epoch <= member.epoch:\n",
        _MACHINE,
    ),
)
