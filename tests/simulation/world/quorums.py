"""How the voters of a simulated cluster are named: by the settings, or in the log, where they come and go (KIP-853).

A dynamic quorum is made as an operator makes one: all directories are formatted before the first start, as by
`minikafka storage format`, and the settings have the addresses of controllers instead of the voters.
"""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from minikafka.broker.node.format import Voters, feature_levels, first_voters, format_directories
from minikafka.broker.settings.node_config import load_config
from minikafka.controller.metadata.cluster_ids import known_directory_id
from minikafka.controller.metadata.formatted_levels import Formatted
from minikafka.controller.raft.voter_set import NO_DIRECTORY, ReplicaKey
from minikafka.protocol.names import uuid_text
from minikafka.storage.directories.directory_ids import new_directory_id
from minikafka.storage.disks.checkpoint_files import BrokenCheckpoint
from simulation.world.cluster import CONTROLLER_PORT, Cluster, Host

FIXED, STANDALONE, INITIAL, UPGRADED = "fixed", "standalone", "initial controllers", "upgraded"
QUORUMS = (FIXED, STANDALONE, INITIAL, UPGRADED)
"""Voters of the settings; the first controller alone; all the layout's controllers; and voters of the settings, until
an operator upgrades kraft.version."""
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
OTHER_PORT = CONTROLLER_PORT + 100
"""Of a controller that has moved."""
JOINS = "controller.quorum.auto.join.enable"
BOOTSTRAP, STATIC_VOTERS = "controller.quorum.bootstrap.servers", "controller.quorum.voters"


def lay_out(cluster: Cluster, layout: str, settings: Mapping[str, str], quorum: str) -> None:
    """Hosts by a layout (`Cluster.lay_out`) and one of `QUORUMS`, formatted where that is needed.

    Where the voters are in the log from the beginning, the first of the nodes that the layout has as brokers only is a
    controller, too: an observer until it is added.
    """
    if quorum == FIXED or layout == "1":
        cluster.lay_out(layout, {name: value for name, value in settings.items() if name != JOINS})
        return
    voters, brokers = (int(part) for part in (layout.replace(":", "+") + "+0").split("+")[:2])
    controllers = voters if quorum == UPGRADED else min(voters + 1, voters + brokers)
    for node_id in range(1, voters + brokers + 1):
        roles = "broker" if node_id > controllers else "broker,controller"
        if ":" in layout and node_id <= voters:
            roles = "controller"
        given = {name: value for name, value in settings.items() if name != JOINS or "controller" in roles}
        cluster.add_node(node_id, {**_quorum_settings(quorum, controllers), **given}, roles=roles)
    if quorum != UPGRADED:
        _format_all(cluster, voters, standalone=quorum == STANDALONE)


def _quorum_settings(quorum: str, controllers: int) -> dict[str, str]:
    """The bootstrap servers are all controllers: while one has another address, the others are where they say."""
    addresses = {node_id: f"node-{node_id}:{CONTROLLER_PORT}" for node_id in range(1, controllers + 1)}
    if quorum == UPGRADED:
        return {STATIC_VOTERS: ",".join(f"{node_id}@{where}" for node_id, where in addresses.items())}
    return {BOOTSTRAP: ",".join(addresses.values())}


def _format_all(cluster: Cluster, voters: int, *, standalone: bool) -> None:
    random = cluster.world.random("format")
    ids = {node_id: uuid_text(new_directory_id(random)) for node_id in range(1, voters + 1)}
    initial = ",".join(f"{one}@node-{one}:{CONTROLLER_PORT}:{directory}" for one, directory in ids.items())
    for node_id, host in cluster.hosts.items():
        if standalone and node_id == 1:
            how = Voters(standalone=True)
        elif not standalone and node_id <= voters:
            how = Voters(initial=initial)
        else:
            how = Voters(none_yet=True)
        format_host(host, how, random)


def format_host(host: Host, voters: Voters, random: Random, *, cluster_id: str = CLUSTER_ID) -> None:
    """`minikafka storage format --ignore-formatted` on a host whose node does not run. Raises OSError."""
    config = load_config(properties={}, environment={}, settings=host.settings)
    files = host.disk.attach()
    try:
        format_directories(
            files,
            config,
            cluster_id,
            formatted=Formatted(feature_levels(None, {}, voters=voters, fixed=False)),
            voters=first_voters(config, voters, random),
            ignore_formatted=True,
            now_ms=host.clock(),
            random=random,
        )
    finally:
        files.kill()


def is_controller(host: Host) -> bool:
    return "controller" in host.settings["process.roles"].split(",")


def is_broker(host: Host) -> bool:
    return "broker" in host.settings["process.roles"].split(",")


def key_on_disk(host: Host) -> ReplicaKey | None:
    """The voter that a host's metadata directory is, or would be; None where that cannot be read."""
    if host.metadata_directory in host.disk.unmounted:
        return None
    try:
        directory = known_directory_id(host.disk, host.metadata_directory)
    except BrokenCheckpoint:
        return None
    return None if directory == NO_DIRECTORY else ReplicaKey(host.node_id, directory)


def endpoints_of(host: Host) -> dict[str, str]:
    """`host:port` of a controller's listener, by its name."""
    for listener in host.settings["listeners"].split(","):
        name, _, address = listener.partition("://")
        if name == host.settings["controller.listener.names"]:
            return {name: address}
    raise AssertionError(f"{host.name} is no controller")


def move_controller(host: Host) -> None:
    """Give a controller the other of its two addresses; in force when its node starts the next time."""
    ports = (CONTROLLER_PORT, OTHER_PORT)
    old, new = ports if has_home_address(host) else ports[::-1]
    host.settings["listeners"] = host.settings["listeners"].replace(f"{host.name}:{old}", f"{host.name}:{new}")


def has_home_address(host: Host) -> bool:
    """Whether the bootstrap servers of others are right about this controller."""
    return f"{host.name}:{CONTROLLER_PORT}" in host.settings["listeners"]


def quorum_was_upgraded(cluster: Cluster) -> None:
    """Replace the voters in the settings of all nodes by addresses, for their next starts."""
    for host in cluster.hosts.values():
        fixed = host.settings.pop(STATIC_VOTERS, None)
        if fixed is not None:
            host.settings[BOOTSTRAP] = ",".join(one.partition("@")[2] for one in fixed.split(","))
