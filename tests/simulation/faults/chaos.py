"""`Chaos`: what a fault needs: the cluster, the limits of what a correct cluster survives, and an end to all faults."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from minikafka.broker.node.node import Node
from minikafka.controller.metadata.image import Image
from simulation.faults.mounting import mount
from simulation.faults.voter_limits import VoterLimits
from simulation.world.cluster import Cluster, Host


class Chaos:
    """See above.

    Args:
        cluster: The cluster.
        durable: Nodes sync each batch before it is acknowledged, so that any number of them may lose power.
        tolerates_loss: Acknowledged records are on two nodes at least, so that one may lose what it has not synced.

    Attributes:
        healed: The faults have ended; those under way undo themselves no more, since `heal` has done it.
        unsafe: Hosts that may lack acknowledged records until they are in every ISR again.
        pinned: Those of them that stay so, since their disk has a fault that they may not know of; whether for good.
        at_heal: What is to be done when the faults end, by a text, which names it once.
        left_failed: The directory of a host that fails for good.
        voters: The limits of changes of the voters.
    """

    def __init__(self, cluster: Cluster, *, durable: bool, tolerates_loss: bool) -> None:
        self.cluster = cluster
        self.world = cluster.world
        self.durable = durable
        self.tolerates_loss = tolerates_loss
        self.healed = False
        self.unsafe: dict[int, None] = {}
        self.pinned: dict[int, bool] = {}
        self.at_heal: dict[str, Callable[[], None]] = {}
        self.left_failed: dict[int, str] = {}
        self.voters = VoterLimits(cluster, self.leader)
        self._fault = ""

    def inject(self, name: str, call: Callable[..., object], *arguments: object) -> None:
        """Call the function of a fault. The effects that it counts, now or `later`, count for its name too."""
        before, self._fault = self._fault, name
        try:
            call(*arguments)
        finally:
            self._fault = before

    # -- choosing ------------------------------------------------------------------------------------------------

    def hosts(self) -> list[Host]:
        return list(self.cluster.hosts.values())

    def any_host(self, random: Random) -> Host:
        """A random host; the leader of the quorum more often than others."""
        leader = self.leader()
        if leader is not None and random.random() < 0.3:
            return leader
        return random.choice(self.hosts())

    def leader(self) -> Host | None:
        """The host of the active controller; the newest one, if a former one has not noticed its end."""
        active = [
            (controller.leader_epoch, host)
            for host in self.hosts()
            if (controller := host.controller) is not None and controller.is_active
        ]
        return max(active, key=lambda one: one[0], default=(0, None))[1]

    def all_addresses(self) -> list[str]:
        """The names of all hosts, of nodes and of clients."""
        return list(self.cluster.network.hosts)

    # -- limits --------------------------------------------------------------------------------------------------

    def image(self) -> Image | None:
        """The metadata of the active controller, if there is one."""
        leader = self.leader()
        controller = None if leader is None else leader.controller
        return None if controller is None else controller.image

    def may_lose_records(self, host: Host) -> bool:
        """Whether this host may lose what it has not synced: all others are running and in every ISR.

        A broker that ended without a controlled shutdown is out of the ISR and no eligible leader (KIP-966), as it may
        have lost records. So one host besides those that did lose some must go on, until they are in sync again.
        """
        if self.durable:
            return self.may_kill(host)
        return self._others_have_all(host)

    def loses_records(self, host: Host) -> None:
        """This host may lack records from now on."""
        if not self.durable:
            self.unsafe[host.node_id] = None

    def may_lose_disk(self, host: Host) -> bool:
        """Whether this host may lose what it has synced: all others have it."""
        return self._others_have_all(host)

    def loses_disk(self, host: Host) -> None:
        """This host lacks records from now on, also synced ones."""
        self.unsafe[host.node_id] = None
        host.unclean = True

    def pin(self, host: Host, *, for_good: bool = False) -> None:
        """This host counts as one that has not caught up before `unpin`, whatever the cluster believes.

        Args:
            for_good: until the faults have ended, also if another fault of its disk ends before.
        """
        self.pinned[host.node_id] = self.pinned.get(host.node_id, False) or for_good

    def unpin(self, host: Host) -> None:
        """Its disk is in order again. A process that saw it fail must have ended."""
        if not self.pinned.get(host.node_id, False):
            self.pinned.pop(host.node_id, None)

    def has_failed_directory(self, host: Host, *, besides: str | None = None) -> bool:
        """Whether the node knows of a data directory that has failed."""
        if not isinstance(host.node, Node):
            return False
        return any(one.failure is not None and one.path != besides for one in host.node.parts.logs.directories)

    def may_kill(self, host: Host) -> bool:
        """Whether the process of this host may end without a controlled shutdown: no other lacks records.

        One more would be allowed if the third could be relied on; but that one may be paused or isolated, and is then
        fenced, while the other two are in the ISR and the controller does not know yet how they ended.
        """
        self._forget_those_that_have_caught_up()
        return not self.unsafe or {*self.unsafe, *self.pinned} == {host.node_id}

    def kill(self, host: Host) -> None:
        """SIGKILL, if it is allowed."""
        if host.is_running and self.may_kill(host):
            self.cluster.kill(host)
            self.count("process killed")

    def _others_have_all(self, host: Host) -> bool:
        self._forget_those_that_have_caught_up()
        image = self.image()
        others = [other for other in self.hosts() if other is not host]
        return (
            self.tolerates_loss
            and image is not None
            and all(
                one.ready
                and not one.unclean
                and one.node_id not in self.unsafe
                and one.node_id not in self.pinned
                and _is_in_every_isr(image, one.node_id)
                for one in others
            )
        )

    def _forget_those_that_have_caught_up(self) -> None:
        image = self.image()
        for host in self.hosts():
            if host.node_id in self.pinned or not host.unclean:
                continue
            if image is not None and host.ready and _is_in_every_isr(image, host.node_id):
                host.unclean = False
                self.unsafe.pop(host.node_id, None)

    # -- time ----------------------------------------------------------------------------------------------------

    def later(self, delay_s: float, call: Callable[..., object], *arguments: object) -> None:
        """Call a function after a delay, unless the faults have ended."""
        injected = self.remembering(call)

        def unless_healed() -> None:
            if not self.healed:
                injected(*arguments)

        self.world.after(delay_s, unless_healed)

    def remembering(self, call: Callable[..., object]) -> Callable[..., None]:
        """A function that is part of the fault that is being injected, whenever it is called."""
        return partial(self.inject, self._fault, call)

    def tell(self, text: str) -> None:
        """Add a line to the trace."""
        self.world.trace("chaos", text)

    def count(self, effect: str) -> None:
        """The fault that is being injected had an effect."""
        self.world.coverage[f"effect: {effect}"] += 1
        self.world.coverage[f"fault: {self._fault}"] += 1

    def heal(self) -> None:
        """End all faults."""
        self.tell("the faults have ended")
        self.healed = True
        self.cluster.network.heal_all()
        self.cluster.network.descriptors_max.clear()
        for machine in self.world.machines.values():
            self.world.resume(machine)
        for host in self.hosts():
            host.clock.set_right()
            self._heal_disk(host)
        for repair in self.at_heal.values():
            repair()
        for host in self.hosts():
            self.cluster.keep_running(host)

    def _heal_disk(self, host: Host) -> None:
        """Repair it; a node that has seen its faults is started again."""
        host.disk.on_operation(None)
        left = self.left_failed.get(host.node_id)
        if (
            host.disk.unmounted
            or host.descriptors_max is not None
            or (host.node_id in self.pinned and left is None)
            or self.has_failed_directory(host, besides=left)
        ):
            self.cluster.kill(host)
        host.descriptors_max = None
        for path in host.disk.unmounted:
            mount(host, path)
        host.disk.heal()
        if left is not None:
            host.disk.fail_directory(left)
        if not host.is_running:
            for path in host.directories:
                host.disk.mount_again(path)


def _is_in_every_isr(image: Image, node_id: int) -> bool:
    return all(
        node_id in partition.isr
        for topic in image.topics.values()
        for partition in topic.partitions
        if node_id in partition.replicas
    )
