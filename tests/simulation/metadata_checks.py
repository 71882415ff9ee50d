"""`CommittedMetadata`: no committed record of the metadata log is lost or replaced, and an epoch has one leader.

By Raft's log matching, the epoch of a record names all records before it: so a few numbers of each node suffice.
"""

from __future__ import annotations

from minikafka.controller.quorum_controller import QuorumController
from simulation.world.cluster import Cluster

LOOK_EVERY_S = 0.5


class CommittedMetadata:
    """See above.

    Attributes:
        broken: What is wrong, as a sentence; "" if nothing is.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._epochs: dict[int, int] = {}
        self._end, self._known_in = 0, 0
        self._leaders: dict[int, str] = {}
        self.broken = ""

    def keep_looking(self) -> None:
        """Look at all nodes, again and again."""
        self.look()
        self._cluster.world.after(LOOK_EVERY_S, self.keep_looking)

    def look(self) -> None:
        """Compare what the nodes take for committed with what was committed before."""
        running = {host.name: one for host in self._cluster.hosts.values() if (one := host.controller) is not None}
        for name, controller in running.items():
            self._look_at(name, controller)
        for name, controller in running.items():
            if _leads(controller) and controller.leader_epoch >= self._known_in and self._end:
                self._compare(name, controller, self._end)  # leader completeness (Raft, section 5.4)

    def _look_at(self, name: str, controller: QuorumController) -> None:
        end, epoch = controller.committed_offset, controller.leader_epoch
        self._compare(name, controller, end)
        if end > self._end:
            self._end, self._known_in = end, epoch
        if _leads(controller) and self._leaders.setdefault(epoch, name) != name:
            self._note(f"epoch {epoch} has two leaders: {self._leaders[epoch]} and {name}")

    def _compare(self, name: str, controller: QuorumController, offset: int) -> None:
        """The epoch of the last record before this offset, unless a snapshot has replaced it."""
        log = controller.stored._log
        if offset > log.end_offset:
            self._note(f"{name} leads and has records up to offset {log.end_offset}; {offset} was committed")
            return
        found = log.epochs.epoch_of(offset - 1)
        if found is None or offset <= log.start_offset:
            return
        known = self._epochs.setdefault(offset, found)
        if known != found:
            self._note(f"{name} has a record of epoch {found} before offset {offset}, where {known} was committed")

    def _note(self, what: str) -> None:
        if not self.broken:
            self._cluster.world.trace("chaos", f"broken: {what}")
            self.broken = what


def _leads(controller: QuorumController) -> bool:
    """Whether Raft has elected it in its epoch. `is_active` ends a moment later, when the term has been wound up."""
    return controller.leader_id == controller._static.node_id
