"""Changes the subscriptions of a group after a heartbeat: topic names, regular expressions and the group epoch.

Regular expressions are resolved in a task beside the requests (`GroupCoordinator`), at most every 10 s. Until then a
new regular expression matches no topic. Source: Kafka's `GroupMetadataManager` (maybeUpdateRegularExpressions,
updateSubscriptionMetadata, handleRegularExpressionsResult).
"""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.broker.coordinator.groups.consumer.record_writing import (
    write_epoch,
    write_metadata,
    write_pattern_tombstone,
)
from minikafka.broker.coordinator.groups.consumer.subscribed_topics import (
    existing,
    has_changed,
    metadata_hash,
    see_topics,
    topic_ids,
    topics_with,
)
from minikafka.broker.coordinator.groups.consumer.subscription_pattern import check_pattern
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.consumer_group import ConsumerGroup
from minikafka.broker.coordinator.groups.state.consumer_group_records import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)
from minikafka.broker.coordinator.groups.state.consumer_member import ConsumerMember
from minikafka.controller.metadata.image import Image
from minikafka.controller.security.access import Access

RESOLVED_AT_MOST_EVERY_MS = 10_000
RESOLVED_AT_LEAST_EVERY_MS = 600_000


def update_subscription(
    builder: DecisionBuilder, group: ConsumerGroup, before: ConsumerMember, member: ConsumerMember, access: Access
) -> tuple[int, bool]:
    """Write what changed of a member, and the group epoch if it does.

    Args:
        before: The member as it was; a new member subscribes to nothing.
        access: What the member may do: expressions find the topics that it may describe.

    Returns:
        The group epoch, and whether the member's subscription changed.

    Raises:
        InvalidRegularExpressionError: The new expression is none.
    """
    if member != before:
        write_metadata(builder, group, member)
    names_changed = member.topics != before.topics
    pattern_changed = member.pattern != before.pattern
    resolved = False
    if pattern_changed:
        resolved = _change_pattern(builder, group, before.pattern, member.pattern)
    _resolve_if_due(builder, group, member, access)
    epoch = update_epoch(builder, group, member, bump=names_changed or resolved)
    return epoch, names_changed or pattern_changed


def update_epoch(builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMember, *, bump: bool) -> int:
    """The group epoch with this member: the next one if `bump`, or if the group's topics have changed."""
    image = builder.state.image
    if not bump and not has_changed(group, image):
        return group.epoch
    topics = topics_with(image, group, member, _replaced(group, member))
    new_hash = metadata_hash(image, topics)
    epoch = group.epoch
    if bump or new_hash != group.metadata_hash:
        epoch += 1
        write_epoch(builder, group.group_id, epoch, new_hash)
    see_topics(group, image, epoch, topics)
    return epoch


def _replaced(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    return [old for old in (group.static_members.get(member.instance_id or ""),) if old is not None]


# -- regular expressions -----------------------------------------------------------------------------------------


def _change_pattern(builder: DecisionBuilder, group: ConsumerGroup, old: str, new: str) -> bool:
    """Whether the topics of the new expression are known at once, or there is none any more."""
    if old and group.subscribers_of(old) == 1:
        write_pattern_tombstone(builder, group, old)
    if not new:
        return True
    if not group.subscribers_of(new):
        check_pattern(new)
        return False
    return new in group.patterns


def _resolve_if_due(
    builder: DecisionBuilder, group: ConsumerGroup, member: ConsumerMember, access: Access
) -> None:
    """Have the group's expressions resolved if one is new, there are new topics, or the last time is long ago."""
    patterns = {one.pattern for one in group.members.values() if one.member_id != member.member_id}
    patterns = {one for one in patterns | {member.pattern} if one}
    if not patterns:
        return
    now_ms = builder.now.clock_ms
    last_ms = max((one.timestamp_ms for one in group.patterns.values()), default=0)
    age_ms = now_ms - last_ms if now_ms >= last_ms else RESOLVED_AT_LEAST_EVERY_MS + 1  # The clock was set back.
    if age_ms <= RESOLVED_AT_MOST_EVERY_MS:
        return
    new_topics = group.patterns_seen != newest_topic(builder.state.image)
    if patterns != group.patterns.keys() or new_topics or age_ms > RESOLVED_AT_LEAST_EVERY_MS:
        builder.state.resolve_patterns(group.group_id, frozenset(patterns), access)


def newest_topic(image: Image) -> bytes:
    """The id of the topic that was created last; empty if there are none."""
    newest = next(reversed(image.topics.values()), None)
    return b"" if newest is None else newest.id


def patterns_resolved(
    builder: DecisionBuilder, group: ConsumerGroup, found: Mapping[str, frozenset[str]], seen: bytes
) -> None:
    """Write the topics of the expressions that are still subscribed to; the group epoch increases if they changed.

    Args:
        found: The topics by expression.
        seen: The newest topic that was looked at.
    """
    group.patterns_seen = seen
    topics = {topic.name for topic in existing(builder.state.image, group.subscribers.names.keys())}
    changed = False
    for pattern, resolved in group.patterns.items():
        if pattern not in found:
            topics |= resolved.topics
    for pattern, names in found.items():
        if not group.subscribers_of(pattern):
            continue
        known = group.patterns.get(pattern)
        changed = changed or names != (frozenset() if known is None else known.topics)
        changed = changed or (known is None and _has_others_topics(builder.state.image, group, pattern, names))
        topics |= names
        value = ConsumerGroupRegularExpressionValue(
            topics=sorted(names), version=len(builder.state.image.topics), timestamp=builder.now.clock_ms
        )
        key = ConsumerGroupRegularExpressionKey(group_id=group.group_id, regular_expression=pattern)
        builder.write(key, value)
    new_hash = metadata_hash(builder.state.image, topics)
    if changed or new_hash != group.metadata_hash:
        write_epoch(builder, group.group_id, group.epoch + 1, new_hash)
        see_topics(group, builder.state.image, group.epoch + 1, topics)


def _has_others_topics(image: Image, group: ConsumerGroup, pattern: str, names: frozenset[str]) -> bool:
    """Whether the target of a member that has changed to this expression has topics that it does not match.

    The member has given them up. Kafka raises no epoch if a new expression matches nothing, and their partitions stay
    without an owner.
    """
    return any(
        not group.targets.get(member.member_id, {}).keys() <= topic_ids(image, member.topics | names)
        for member in group.members.values()
        if member.pattern == pattern
    )
