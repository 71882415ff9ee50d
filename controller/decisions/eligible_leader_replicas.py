"""Maintains the eligible leader replicas of a partition (ELR, KIP-966) and its last known leader.

- A replica becomes eligible if it leaves the ISR and the ISR then has fewer than min.insync.replicas members, because
  no record was committed since it left. A replica on a broker with an unclean shutdown does not become eligible, since
  the broker may have lost records that it had not synced (KIP-966, "last replica standing").
- The ELR is cleared once the ISR has min.insync.replicas members again. If min.insync.replicas is lowered, the present
  ISR may become large enough to commit records that the eligible replicas do not have, so the decision that changes the
  config clears the ELR.

Source: `PartitionChangeBuilder.maybePopulateTargetElr`,
`ReplicationControlManager.getPartitionElrUpdatesForConfigChanges`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from minikafka.controller.decisions.broker_config_validation import MIN_ISR
from minikafka.controller.decisions.leader_election import NO_LEADER, ElectionRules
from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.metadata.records import ConfigRecord, PartitionChange, Record
from minikafka.controller.metadata.steps import partitions_where
from minikafka.controller.settings.effective_settings import ALL_BROKERS, EffectiveSettings, ResourceType
from minikafka.protocol.settings.registry import NODE_SETTINGS

__all__ = ["cleared_by_config_change", "with_eligible_replicas", "with_last_known_leader"]


def with_eligible_replicas(state: PartitionState, target: PartitionState, rules: ElectionRules) -> PartitionState:
    """`target` with its eligible leader replicas, which are none if the ISR has min.insync.replicas members."""
    if len(target.isr) >= min(rules.min_isr, len(target.replicas)):
        return target if not target.elr else replace(target, elr=())
    candidates = dict.fromkeys(state.elr + state.isr)
    elr = tuple(
        replica
        for replica in candidates
        if replica in target.replicas and replica not in target.isr and replica != rules.unclean_shutdown
    )
    return target if elr == target.elr else replace(target, elr=elr)


def with_last_known_leader(state: PartitionState, target: PartitionState) -> PartitionState:
    """`target` with the last known leader of the partition, if it has no leader and its ISR is empty."""
    known = target.last_known_elr
    if target.leader != NO_LEADER:
        known = ()
    elif not target.isr and state.leader != NO_LEADER:
        known = (state.leader,)
    known = tuple(node for node in known if node in target.replicas)
    return target if known == target.last_known_elr else replace(target, last_known_elr=known)


def cleared_by_config_change(
    image: Image, records: Sequence[Record], settings: EffectiveSettings
) -> Iterator[PartitionChange | None]:
    """Yield the changes that clear the ELR of each partition whose ISR is large enough once the config records are
    applied, and None where a pause is due."""
    changed = {
        (record.resource_type, record.resource_name): record.value
        for record in records
        if isinstance(record, ConfigRecord) and record.name == MIN_ISR
    }
    if not changed:
        return
    for found in partitions_where(_affected(image, changed), lambda state: bool(state.elr)):
        if found is None:
            yield None
            continue
        topic, index, state = found
        min_isr = _new_min_isr(image, topic, changed, settings)
        if len(state.isr) >= min(min_isr, len(state.replicas)):
            yield PartitionChange(topic.id, index, elr=())


Changed = dict[tuple[int, str], str | None]
"""New values of min.insync.replicas by resource; None if the config is deleted."""


def _affected(image: Image, changed: Changed) -> list[Topic]:
    if (ResourceType.BROKER, ALL_BROKERS) in changed:
        return list(image.topics.values())
    return [image.topics[name] for kind, name in changed if kind == ResourceType.TOPIC and name in image.topics]


def _new_min_isr(image: Image, topic: Topic, changed: Changed, settings: EffectiveSettings) -> int:
    """The min.insync.replicas of a topic after the change: of the topic config, the cluster-wide dynamic config and the
    static broker config, the first that is set."""
    for key in ((ResourceType.TOPIC, topic.name), (ResourceType.BROKER, ALL_BROKERS)):
        text = changed[key] if key in changed else image.config(*key).get(MIN_ISR)
        if text is not None:
            value = NODE_SETTINGS[MIN_ISR].parse(text)
            assert isinstance(value, int), "checked when it was set"
            return value
    return settings.static.number(MIN_ISR)
