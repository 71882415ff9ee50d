"""The settings of the quorum (`controller.quorum.*`), parsed: voters, addresses, and the settings of Raft. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minikafka.controller.quorum.handshake import Address
from minikafka.controller.raft.raft_settings import RaftSettings
from minikafka.controller.raft.voter_set import VoterEndpoint
from minikafka.controller.settings.static_settings import StaticSettings

__all__ = ["QuorumSettings", "quorum_settings"]

FETCH_WAIT_MS_MAX = 500
"""The longest time that a follower's Fetch waits for new records. With a short fetch timeout the wait is shorter, since
it must stay well below the timeout."""
REQUEST_TIMEOUT_MS_MAX = 1000


@dataclass(frozen=True, slots=True)
class QuorumSettings:
    """The quorum as this node's settings describe it.

    Attributes:
        voters: the addresses of the controllers by id; empty if they must be discovered.
        bootstrap: the addresses used for discovery.
        listen_on: the addresses on which this node listens as a controller; empty if it is not a controller.
        is_controller: whether this node has the role `controller`.
        raft: timeouts and limits.
        advertised: the addresses at which other nodes reach this controller.
        joins: whether this controller asks to be added to the voters (`controller.quorum.auto.join.enable`).
        is_alone: whether the settings name no quorum: this node is the only voter, and stays so.
    """

    voters: Mapping[int, Address]
    bootstrap: Sequence[Address]
    listen_on: Sequence[Address]
    is_controller: bool
    raft: RaftSettings
    advertised: Sequence[VoterEndpoint] = ()
    joins: bool = False
    is_alone: bool = False


def quorum_settings(
    static: StaticSettings,
    listen_on: Sequence[Address],
    *,
    is_controller: bool,
    advertised: Sequence[VoterEndpoint] = (),
    is_alone: bool = False,
) -> QuorumSettings:
    """Parse the quorum settings of a node. They must have been validated. A node that is alone without a controller
    listener has no address as a voter: "" and port 0."""
    own = {static.node_id: next(((one.host, one.port) for one in advertised), ("", 0))}
    servers = () if is_alone else _items(static, "controller.quorum.bootstrap.servers")
    return QuorumSettings(
        voters=own if is_alone else dict(map(_voter, _items(static, "controller.quorum.voters"))),
        bootstrap=[_address(item) for item in servers],
        listen_on=listen_on,
        is_controller=is_controller,
        raft=_raft_settings(static),
        advertised=advertised if is_controller else (),
        joins=is_controller and bool(static.value("controller.quorum.auto.join.enable")),
        is_alone=is_alone,
    )


def _raft_settings(static: StaticSettings) -> RaftSettings:
    fetch_timeout_ms = max(10, static.number("controller.quorum.fetch.timeout.ms"))
    request_timeout_ms = static.number("controller.quorum.request.timeout.ms")
    return RaftSettings(
        election_timeout=max(1, static.number("controller.quorum.election.timeout.ms")) / 1000,
        fetch_timeout=fetch_timeout_ms / 1000,
        retry_backoff=max(1, min(static.number("controller.quorum.retry.backoff.ms"), fetch_timeout_ms // 10)) / 1000,
        request_timeout=max(1, min(request_timeout_ms, REQUEST_TIMEOUT_MS_MAX, fetch_timeout_ms // 2)) / 1000,
        fetch_wait=min(FETCH_WAIT_MS_MAX, fetch_timeout_ms // 3) / 1000,
        fetch_bytes_max=static.number("controller.quorum.fetch.max.bytes"),
        snapshot_bytes_max=static.number("controller.quorum.fetch.snapshot.max.bytes"),
    )


def _items(static: StaticSettings, name: str) -> tuple[str, ...]:
    value = static.value(name)
    assert isinstance(value, tuple), f"{name} is a list"
    return value


def _voter(item: str) -> tuple[int, Address]:
    node_id, _, address = item.partition("@")
    return int(node_id), _address(address)


def _address(item: str) -> Address:
    host, _, port = item.strip().rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)
