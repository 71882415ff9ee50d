"""Elects the leader of a partition: clean, preferred and unclean elections.

- A leader is unfenced, not in controlled shutdown, and a member of the ISR or an eligible leader replica (KIP-966). Its
  data directory is online (KIP-858).
- If the ISR and the eligible leader replicas are empty, the last known leader may be elected.
- Any other replica is elected only in an unclean election: one requested with ElectLeaders, or any election of a topic
  with `unclean.leader.election.enable`. The new leader is then the only member of the ISR.

Source: `PartitionChangeBuilder.electLeader`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum, auto

from minikafka.controller.metadata.image import Image, PartitionState, Topic
from minikafka.controller.settings.effective_settings import EffectiveSettings
from minikafka.storage.directories.directory_ids import UNASSIGNED

__all__ = ["Election", "ElectionRules", "TopicRules", "with_leader", "without"]

NO_LEADER = -1


class Election(Enum):
    """The kind of election."""

    ANY = auto()
    """The current leader stays; otherwise the first replica that may lead."""
    PREFERRED = auto()
    """The first replica is elected if it may lead; otherwise as `ANY`."""
    UNCLEAN = auto()
    """As `ANY`; if no replica may lead, any unfenced replica is elected."""


@dataclass(frozen=True, slots=True)
class ElectionRules:
    """The inputs of an election in a topic besides the state of the partition.

    Attributes:
        may_lead: returns whether a node is unfenced and not in controlled shutdown.
        min_isr: the topic's min.insync.replicas.
        election: the kind of election.
        unclean_shutdown: a broker whose last shutdown was unclean, None if there is none.
        has_online: returns whether a node can use a data directory.
        new_directory: returns the data directory of a new replica on a node.
    """

    may_lead: Callable[[int], bool]
    min_isr: int
    election: Election = Election.ANY
    unclean_shutdown: int | None = None
    has_online: Callable[[int, bytes], bool] = lambda node, directory: True
    new_directory: Callable[[int], bytes] = lambda node: UNASSIGNED

    def may_lead_with(self, node: int, state: PartitionState) -> bool:
        """Whether the replica on a node may lead a partition in this state: the node may lead, and the data directory
        of the replica is online."""
        return self.may_lead(node) and self.has_online(node, state.directory(node))


class TopicRules:
    """The election rules of each topic, computed once.

    Args:
        image: the image with the brokers.
        settings: the effective settings.
        may_lead: used instead of the image, which does not yet contain a change that is being decided.
        unclean_shutdown: as in `ElectionRules`.
        has_online: used instead of the image, like `may_lead`.
    """

    def __init__(
        self,
        image: Image,
        settings: EffectiveSettings,
        *,
        may_lead: Callable[[int], bool] | None = None,
        unclean_shutdown: int | None = None,
        has_online: Callable[[int, bytes], bool] | None = None,
    ) -> None:
        self._may_lead = may_lead or image.may_lead
        self._unclean_shutdown = unclean_shutdown
        self._has_online = has_online or image.has_online
        self._new_directory = image.new_directory
        self._settings = settings
        self._known: dict[tuple[str, Election | None], ElectionRules] = {}

    def of(self, topic: Topic, election: Election | None = None) -> ElectionRules:
        """The rules of a topic; without `election`, `unclean.leader.election.enable` decides the kind."""
        key = (topic.name, election)
        if key not in self._known:
            self._known[key] = self._rules(topic.name, election)
        return self._known[key]

    def _rules(self, topic: str, election: Election | None) -> ElectionRules:
        configured = Election.UNCLEAN if self._settings.unclean_leader_election(topic) else Election.ANY
        return ElectionRules(
            may_lead=self._may_lead,
            min_isr=self._settings.min_insync_replicas(topic),
            election=election or configured,
            unclean_shutdown=self._unclean_shutdown,
            has_online=self._has_online,
            new_directory=self._new_directory,
        )


def without(nodes: tuple[int, ...], *removed: int | None) -> tuple[int, ...]:
    """The nodes that are not in `removed`, in their order."""
    return tuple(node for node in nodes if node not in removed)


def with_leader(state: PartitionState, target: PartitionState, rules: ElectionRules) -> PartitionState:
    """`target` with its leader, and with the ISR and the eligible leader replicas that follow from the election."""
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


def _leader_among(
    candidates: tuple[int, ...], state: PartitionState, target: PartitionState, rules: ElectionRules
) -> int:
    """The leader among the candidates: the current leader if it may lead, otherwise the first replica that may lead. A
    preferred election tries the first replica before both."""
    first = (target.replicas[0],) if rules.election is Election.PREFERRED else ()
    order = (*first, state.leader, *target.replicas)
    return next((node for node in order if node in candidates and rules.may_lead_with(node, target)), NO_LEADER)


def _unclean_leader(target: PartitionState, rules: ElectionRules) -> int:
    """The last known leader if the ISR and ELR are empty; any replica if unclean election is allowed."""
    candidates = () if target.isr or target.elr else target.last_known_elr
    if rules.election is Election.UNCLEAN:
        candidates += target.replicas
    return next((replica for replica in candidates if rules.may_lead_with(replica, target)), NO_LEADER)
