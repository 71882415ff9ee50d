"""`VoterLimits`: which changes of the voters a correct quorum survives, and the operators who make them.

A majority of the voters keeps its disk, in each set of voters that may come into force. So only one host of a run ever
has its disk replaced, no voter is removed while that of the lost directory is one, and no disk is lost while another
voter may yet be removed: a request whose response was lost may be carried out at any time later.

While a controller is away from where the bootstrap servers say, one other voter stays there and is not removed. A last
voter that has moved is found by none of the nodes that start afterwards, in Apache Kafka neither: it speaks to other
voters only, and nodes that know no leader ask the bootstrap servers.
"""

from __future__ import annotations

from collections.abc import Callable

from minikafka.controller.quorum_controller import QuorumController
from minikafka.controller.raft.voter_set import ReplicaKey, VoterSet
from simulation.world.cluster import Cluster, Host
from simulation.world.machine import Machine
from simulation.world.quorums import has_home_address, is_controller, key_on_disk

VOTERS_TO_LOSE_ONE = 3


class VoterLimits:
    """See above.

    Args:
        cluster: The cluster.
        leader: Returns the host of the active controller, if there is one.

    Attributes:
        operators: The programs of operators that have been started.
        to_be_removed: Voters that an operator has asked to be removed.
        replaced: The host whose disk was replaced; -1 for none.
    """

    def __init__(self, cluster: Cluster, leader: Callable[[], Host | None]) -> None:
        self._cluster = cluster
        self._leader = leader
        self.operators: list[Machine] = []
        self.to_be_removed: set[ReplicaKey] = set()
        self.replaced = -1

    def controllers(self) -> list[Host]:
        """The hosts with the role."""
        return [host for host in self._cluster.hosts.values() if is_controller(host)]

    def in_force(self) -> VoterSet | None:
        """The voters that the active controller knows; None if there is none, or if they are fixed."""
        leader = self._leader()
        controller = None if leader is None else leader.controller
        found = None if controller is None else controller.membership
        return found.voter_set if found is not None and found.kraft_version else None

    def lost(self) -> list[ReplicaKey]:
        """Voters whose disk was lost, as far as any running node knows."""
        found = {key for controller in self._running() for key in controller.membership.voter_set.keys}
        on_disk = {key_on_disk(host) for host in self.controllers()}
        return sorted(key for key in found - on_disk if key.id == self.replaced)

    def may_be_removed(self) -> list[ReplicaKey]:
        """The voters of which one may be removed now: any but the last one, or the lost one first."""
        voters = self.in_force()
        if voters is None or len(voters) == 1:
            return []
        found = self.lost() or list(voters.keys)
        if all(has_home_address(host) for host in self.controllers()):
            return found
        staying = self._that_stay()
        return [key for key in found if staying - {key}]

    def may_be_replaced(self, host: Host) -> bool:
        """Whether the disk of this voter may be lost, as far as the quorum is concerned."""
        voters = self.in_force()
        if voters is None or self.replaced not in (-1, host.node_id) or len(voters) < VOTERS_TO_LOSE_ONE:
            return False
        others = [key for key in voters.keys if key.id != host.node_id]
        running = self._running()
        return (
            self._are_idle
            and not self.lost()
            and voters.get(host.node_id) is not None
            and voters.is_voter(key_on_disk(host) or ReplicaKey(host.node_id))
            and not self.to_be_removed.intersection(others)
            and len(running) >= len(self.controllers()) - (not host.is_running)
            and all(controller.membership.voter_set == voters for controller in running)
        )

    def may_be_moved(self, host: Host) -> bool:
        """Whether this controller may get another address: the bootstrap servers are right about all others, of which
        one stays a voter."""
        voters = self.in_force()
        if voters is None or len(voters) < VOTERS_TO_LOSE_ONE:
            return False
        if not all(other is host or has_home_address(other) for other in self.controllers()):
            return False
        return any(key.id != host.node_id for key in self._that_stay())

    def _that_stay(self) -> set[ReplicaKey]:
        """Voters where the bootstrap servers say that are in each set that may come into force, whoever leads: they
        were committed once, on some running node, and nobody has asked for their removal."""
        committed = {key for controller in self._running() for key in _committed_voters(controller).keys}
        at_home = {key_on_disk(host) for host in self.controllers() if has_home_address(host)}
        return {key for key in committed - self.to_be_removed if key in at_home}

    @property
    def _are_idle(self) -> bool:
        return all(machine.ended for machine in self.operators)

    def _running(self) -> list[QuorumController]:
        found = [host.controller for host in self.controllers()]
        return [controller for controller in found if controller is not None and controller.membership.kraft_version]


def _committed_voters(controller: QuorumController) -> VoterSet:
    """As far as this node knows; a former leader may not know the latest."""
    return controller.stored.history.before(controller.committed_offset).voters or VoterSet()
