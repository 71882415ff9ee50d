"""How a partition changes: who leads it, who is in sync, who may be elected, when a reassignment is over.

Every decision about partitions that exist says what it wants (another set of in-sync replicas, other replicas, an
election) and gets the one record that follows from it, or None where nothing changes. So the rules stand here once:

- A leader comes out of the in-sync replicas or the eligible leader replicas (KIP-966), is alive and not about to go.
- Whoever leaves the in-sync replicas when fewer than min.insync.replicas are left becomes eligible: nothing was
  committed without it. Who crashed is not: it may have lost what it had not synced (TRAPS 17).
- Where nobody is in sync or eligible, the last leader may come back; anyone else only by an unclean election, which
  sets the in-sync replicas to the new leader alone.
- The leader epoch grows with every new leader, and when replicas go, so that they are fenced.
- A reassignment is over once all that are added are in sync and someone stays.

Source: `PartitionChangeBuilder`, `ReplicationControlManager.generateLeaderAndIsrUpdates`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto

from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.metadata.records import PartitionChange
from minikafka.controller.settings.effective_settings import InForce

__all__ = ["Election", "Rules", "TopicRules", "changes_of_each", "partition_change", "without"]

NO_LEADER = -1


class Election(Enum):
    """Which leader is wanted."""

    ANY = auto()
    """The one that is there, or the first that may be."""
    PREFERRED = auto()
    """The first replica if that may lead, else as ANY."""
    UNCLEAN = auto()
    """As ANY, or else any replica that is alive."""


@dataclass(frozen=True, slots=True)
class Rules:
    """By which a change is judged.

    Attributes:
        may_lead: of a node id, whether it is alive and not about to go.
        min_isr: the topic's min.insync.replicas.
        election: which leader is wanted.
        crashed: a broker whose last shutdown was not clean, None where there is none.
    """

    may_lead: Callable[[int], bool]
    min_isr: int
    election: Election = Election.ANY
    crashed: int | None = None


class TopicRules:
    """The rules of each topic, found once.

    Args:
        image: knows brokers and topics.
        in_force: the settings in force.
        may_lead: instead of the image's word; it knows nothing yet of a change that is being decided.
        crashed: as in `Rules`.
    """

    def __init__(
        self,
        image: Image,
        in_force: InForce,
        *,
        may_lead: Callable[[int], bool] | None = None,
        crashed: int | None = None,
    ) -> None:
        self._may_lead = may_lead or image.may_lead
        self._crashed = crashed
        self._in_force = in_force
        self._known: dict[tuple[str, Election | None], Rules] = {}

    def of(self, topic: Topic, election: Election | None = None) -> Rules:
        """The rules of a topic; without an election the setting says whether it may be an unclean one."""
        key = (topic.name, election)
        if key not in self._known:
            self._known[key] = self._found(topic.name, election)
        return self._known[key]

    def _found(self, topic: str, election: Election | None) -> Rules:
        by_setting = Election.UNCLEAN if self._in_force.unclean_leader_election(topic) else Election.ANY
        return Rules(
            may_lead=self._may_lead,
            min_isr=self._in_force.min_insync_replicas(topic),
            election=election or by_setting,
            crashed=self._crashed,
        )


def without(nodes: tuple[int, ...], *gone: int | None) -> tuple[int, ...]:
    """The others, in their order."""
    return tuple(node for node in nodes if node not in gone)


def changes_of_each(
    image: Image,
    rules: TopicRules,
    *,
    where: Callable[[PartitionState], bool],
    leaves: int | None = None,
) -> Iterator[PartitionChange]:
    """Elect anew in each partition `where` that is needed, after the node that leaves is no longer in sync."""
    for topic in image.topics.values():
        for index, state in enumerate(topic.partitions):
            if where(state):
                wanted = state if leaves is None else replace(state, isr=without(state.isr, leaves))
                change = partition_change(topic.id, index, state, wanted, rules.of(topic))
                if change is not None:
                    yield change


def partition_change(
    topic_id: bytes, index: int, state: PartitionState, wanted: PartitionState, rules: Rules
) -> PartitionChange | None:
    """What has to be written so that a partition becomes what is wanted, None where nothing has.

    Args:
        topic_id: the topic.
        index: the partition in it.
        state: as it is.
        wanted: with the replicas, in-sync replicas and reassignment that are wanted; leader, epochs and eligible
            replicas follow from them.
        rules: of the topic.
    """
    target = _eligible(state, _completed(wanted), rules)
    target = _elected(state, target, rules)
    target = _last_known(state, target)
    moved = target.leader != state.leader
    lost = any(replica not in target.replicas for replica in state.replicas)
    change = PartitionChange(
        topic_id,
        index,
        isr=_new(target.isr, state.isr),
        leader=target.leader if moved or lost else None,
        replicas=_new(target.replicas, state.replicas),
        adding_replicas=_new(target.adding_replicas, state.adding_replicas),
        removing_replicas=_new(target.removing_replicas, state.removing_replicas),
        elr=_new(target.elr, state.elr),
        last_known_elr=_new(target.last_known_elr, state.last_known_elr),
    )
    return None if change == PartitionChange(topic_id, index) else change


def _new(wanted: tuple[int, ...], old: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if wanted == old else wanted


def _completed(wanted: PartitionState) -> PartitionState:
    """After the end of a reassignment, if it has come to that."""
    if not (wanted.adding_replicas or wanted.removing_replicas):
        return wanted
    staying = without(wanted.isr, *wanted.removing_replicas)
    if not staying or any(replica not in staying for replica in wanted.adding_replicas):
        return wanted
    return replace(
        wanted,
        isr=staying,
        replicas=without(wanted.replicas, *wanted.removing_replicas),
        adding_replicas=(),
        removing_replicas=(),
    )


def _eligible(state: PartitionState, target: PartitionState, rules: Rules) -> PartitionState:
    """With the eligible leader replicas: none while enough are in sync."""
    if len(target.isr) >= min(rules.min_isr, len(target.replicas)):
        return target if not target.elr else replace(target, elr=())
    candidates = dict.fromkeys(state.elr + state.isr)
    elr = tuple(
        replica
        for replica in candidates
        if replica in target.replicas and replica not in target.isr and replica != rules.crashed
    )
    return target if elr == target.elr else replace(target, elr=elr)


def _elected(state: PartitionState, target: PartitionState, rules: Rules) -> PartitionState:
    """With its leader."""
    leader = _leader_among(target.isr, state, target, rules)
    if leader != NO_LEADER:
        return target if leader == target.leader else replace(target, leader=leader)
    leader = _leader_among(target.elr, state, target, rules)
    if leader != NO_LEADER:
        eligible = without(tuple(dict.fromkeys(target.elr + target.isr)), leader)
        enough = min(rules.min_isr, len(target.replicas)) <= 1
        return replace(target, leader=leader, isr=(leader,), elr=() if enough else eligible)
    leader = _unclean_leader(target, rules)
    if leader != NO_LEADER:
        return replace(target, leader=leader, isr=(leader,), elr=())
    return target if target.leader == NO_LEADER else replace(target, leader=NO_LEADER)


def _leader_among(candidates: tuple[int, ...], state: PartitionState, target: PartitionState, rules: Rules) -> int:
    """The one that is there, or else the first; a preferred one comes before both."""
    first = (target.replicas[0],) if rules.election is Election.PREFERRED else ()
    order = (*first, state.leader, *target.replicas)
    return next((node for node in order if node in candidates and rules.may_lead(node)), NO_LEADER)


def _unclean_leader(target: PartitionState, rules: Rules) -> int:
    """The last leader where nobody is in sync or eligible; or any, where that is allowed."""
    candidates = () if target.isr or target.elr else target.last_known_elr
    if rules.election is Election.UNCLEAN:
        candidates += target.replicas
    return next((replica for replica in candidates if rules.may_lead(replica)), NO_LEADER)


def _last_known(state: PartitionState, target: PartitionState) -> PartitionState:
    """With the leader that it lost, for as long as it has none and nobody is in sync."""
    known = target.last_known_elr
    if target.leader != NO_LEADER:
        known = ()
    elif not target.isr and state.leader != NO_LEADER:
        known = (state.leader,)
    known = tuple(node for node in known if node in target.replicas)
    return target if known == target.last_known_elr else replace(target, last_known_elr=known)
