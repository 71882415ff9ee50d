"""Faults of the administration of the quorum: voters that are added, removed, replaced and moved (KIP-853).

Only clusters whose quorum is a dynamic one have them (`world/quorums.py`); `VoterLimits` says what is survived.
"""

from __future__ import annotations

from random import Random

from minikafka.broker.node.format import Voters
from minikafka.client.connections.seams import Seams
from minikafka.controller.raft.voter_set import ReplicaKey
from simulation.faults.chaos import Chaos
from simulation.faults.disks import downtime_s
from simulation.faults.disks_at_start import between_processes
from simulation.faults.network import heal_together
from simulation.faults.operators import Change, adding, change_all, removing, upgrade
from simulation.world.cluster import Host
from simulation.world.machine import Machine
from simulation.world.quorums import (
    endpoints_of,
    format_host,
    is_broker,
    key_on_disk,
    move_controller,
    quorum_was_upgraded,
)

LEADER_SHARE = 0.4


def operate(chaos: Chaos, what: str, *changes: Change) -> Machine:
    """Start an operator, on a host of its own."""
    limits = chaos.voters
    name = f"operator-{len(limits.operators) + 1}"

    def tell(text: str) -> None:
        chaos.world.trace(f"host-of-{name}", text)

    async def program(seams: Seams) -> None:
        await change_all(seams, chaos.cluster.logins.admin, list(changes), tell)

    chaos.tell(f"{name}: {what}")
    machine = chaos.cluster.start_client(name, f"host-of-{name}", program)
    limits.operators.append(machine)
    return machine


# -- added and removed -------------------------------------------------------------------------------------------------


def add(chaos: Chaos, random: Random) -> None:
    """A controller that is no voter, or no longer, is added."""
    found = _to_be_added(chaos)
    if found:
        _add(chaos, random.choice(found))


def _to_be_added(chaos: Chaos) -> list[Host]:
    limits = chaos.voters
    voters = limits.in_force()
    if voters is None:
        return []
    found = [(host, key_on_disk(host)) for host in limits.controllers()]
    return [host for host, key in found if key is not None and not voters.is_voter(key)]


def _add(chaos: Chaos, host: Host) -> None:
    key = key_on_disk(host)
    assert key is not None, "its directory has been read"
    operate(chaos, f"adds {host.name}", adding(key, endpoints_of(host)))
    chaos.count("voter to be added")


def add_all(chaos: Chaos, _: Random) -> None:
    """All controllers are added, one after the other, as after `format --standalone`."""
    hosts = _to_be_added(chaos)
    keys = [(key_on_disk(host), endpoints_of(host)) for host in hosts]
    changes = [adding(key, endpoints) for key, endpoints in keys if key is not None]
    if changes:
        operate(chaos, f"adds {', '.join(host.name for host in hosts)}", *changes)
        chaos.count("voters to be added")


def remove(chaos: Chaos, random: Random) -> None:
    """A voter is removed, often the active controller; it goes on as an observer."""
    found = chaos.voters.may_be_removed()
    if found:
        _remove(chaos, _one_of(chaos, random, found))


def _one_of(chaos: Chaos, random: Random, keys: list[ReplicaKey]) -> ReplicaKey:
    leader = chaos.leader()
    leading = [key for key in keys if leader is not None and key.id == leader.node_id]
    return leading[0] if leading and random.random() < LEADER_SHARE else random.choice(keys)


def _remove(chaos: Chaos, key: ReplicaKey) -> None:
    chaos.voters.to_be_removed.add(key)
    operate(chaos, f"removes node {key.id}", removing(key))
    chaos.count("voter to be removed")


def change_at_once(chaos: Chaos, random: Random) -> None:
    """Several operators change voters at the same time, and do not know of each other."""
    for _ in range(random.randint(2, 4)):
        chaos.later(random.uniform(0, 0.3), random.choice((add, remove)), chaos, Random(random.random()))


def change_apart(chaos: Chaos, random: Random) -> None:
    """Voters change at once while the active controller is cut off from some of the other nodes, but not from tools."""
    leader = chaos.leader()
    others = [host.name for host in chaos.hosts() if host is not leader]
    if leader is None or chaos.voters.in_force() is None or not others:
        return
    cut = random.sample(others, random.randint(1, len(others)))
    pairs = [(leader.name, other) for other in cut] + [(other, leader.name) for other in cut]
    chaos.tell(f"{leader.name} is cut off from {', '.join(cut)}")
    chaos.later(random.uniform(0, 0.05), heal_together, chaos, random, pairs)
    change_at_once(chaos, random)


def change_and_lose_the_leader(chaos: Chaos, random: Random) -> None:
    """A voter is added or removed, and the active controller is killed or paused before that is done, or soon after."""
    leader = chaos.leader()
    if leader is None or chaos.voters.in_force() is None:
        return
    random.choice((add, remove))(chaos, random)
    delay_s = random.choice((0.01, 0.1)) * random.random()
    if random.random() < 0.6:
        chaos.later(delay_s, chaos.kill, leader)
        chaos.later(delay_s + downtime_s(random), chaos.cluster.start, leader)
    elif leader.machine is not None:
        chaos.later(delay_s, chaos.world.pause, leader.machine, random.uniform(1.0, 15.0))


def remove_and_stop(chaos: Chaos, random: Random) -> None:
    """A voter is removed and its node stopped at once; later it is started, and added again."""
    found = chaos.voters.may_be_removed()
    if not found:
        return
    key = _one_of(chaos, random, found)
    host = chaos.cluster.hosts[key.id]
    _remove(chaos, key)
    pause_s = downtime_s(random)
    chaos.later(random.uniform(0, 1), chaos.cluster.stop, host)
    chaos.later(1 + pause_s, chaos.cluster.start, host)
    chaos.later(2 + pause_s, _add_again, chaos, host)


def _add_again(chaos: Chaos, host: Host) -> None:
    if host in _to_be_added(chaos):
        _add(chaos, host)


def settle(chaos: Chaos) -> Machine | None:
    """When the faults have ended: remove the voter of a lost directory, add all controllers; None if that is done."""
    limits = chaos.voters
    voters = limits.in_force()
    if voters is None:
        return None
    on_disk = {host.node_id: key_on_disk(host) for host in limits.controllers()}
    changes = [removing(key) for key in voters.keys if key != on_disk.get(key.id)]
    for host in _to_be_added(chaos):
        key = on_disk[host.node_id]
        assert key is not None, "its directory has been read"
        changes.append(adding(key, endpoints_of(host)))
    return operate(chaos, "settles the voters", *changes) if changes else None


# -- replaced and moved ------------------------------------------------------------------------------------------------


def replace_disk(chaos: Chaos, random: Random) -> None:
    """A voter's disk is lost. The new one is formatted, the voter of the lost directory removed, the new one added."""
    limits = chaos.voters
    chosen = {host.node_id: _directories_to_lose(host, random) for host in limits.controllers()}

    def allowed(one: Host) -> bool:
        is_well = one.node_id not in chaos.pinned and limits.may_be_replaced(one)
        return is_well and _may_lose(chaos, one, chosen[one.node_id])

    found, image = [one for one in limits.controllers() if allowed(one)], chaos.image()
    if not found or image is None:
        return
    host = random.choice(found)
    format_random = Random(random.random())
    begins_s = random.choice((0.1, downtime_s(random)))

    def change() -> None:
        key = key_on_disk(host)
        assert key is not None, "it is a voter"
        quorum_was_upgraded(chaos.cluster)
        limits.replaced = host.node_id
        chaos.loses_disk(host)
        host.disk.on_operation(None)
        for path in chosen[host.node_id]:
            host.disk.wipe(path)
        format_host(host, Voters(none_yet=True), format_random, cluster_id=image.cluster_id)
        chaos.tell(f"{host.name}: new disk at {' and '.join(chosen[host.node_id])}")
        chaos.later(begins_s, _replace_voter, chaos, host, key)

    between_processes(chaos, random, host, allowed, change)


def _directories_to_lose(host: Host, random: Random) -> list[str]:
    """All, or only that of the metadata log, where it is one of its own."""
    is_apart = host.metadata_directory not in host.data_directories
    return [host.metadata_directory] if is_apart and random.random() < 0.7 else host.directories


def _may_lose(chaos: Chaos, host: Host, paths: list[str]) -> bool:
    """Whether these directories may be lost: others have the replicas in them, if there are any."""
    has_data = is_broker(host) and bool(set(host.data_directories) & set(paths))
    return chaos.may_lose_disk(host) if has_data else chaos.may_kill(host)


def _replace_voter(chaos: Chaos, host: Host, lost: ReplicaKey) -> None:
    key = key_on_disk(host)
    if key is not None:
        operate(chaos, f"replaces the voter of {host.name}", removing(lost), adding(key, endpoints_of(host)))


def move(chaos: Chaos, random: Random) -> None:
    """A controller comes back with another address, which it has written into the voters itself."""
    limits = chaos.voters
    found = [host for host in limits.controllers() if limits.may_be_moved(host)]
    if not found:
        return
    host = random.choice(found)

    def change() -> None:
        move_controller(host)
        chaos.tell(f"{host.name}: moves to {', '.join(endpoints_of(host).values())}")

    def allowed(one: Host) -> bool:
        return limits.may_be_moved(one) and chaos.may_kill(one)

    between_processes(chaos, random, host, allowed, change)


# -- upgraded ----------------------------------------------------------------------------------------------------------


def upgrade_quorum(chaos: Chaos, _: Random) -> None:
    """Fixed voters become voters that come and go."""
    leader = chaos.leader()
    controller = None if leader is None else leader.controller
    if controller is None or controller.membership.kraft_version:
        return
    machine = operate(chaos, "upgrades kraft.version", upgrade)
    machine.on_end.append(lambda: _upgraded(chaos))
    chaos.count("kraft.version to be upgraded")


def _upgraded(chaos: Chaos) -> None:
    if any(host.controller is not None and host.controller.membership.kraft_version for host in chaos.hosts()):
        quorum_was_upgraded(chaos.cluster)
