"""The handshake of two nodes on the controller listener, which exchanges node id, cluster id and voters.

The node that opened the connection sends first. A node refuses a node of another cluster, or a node with another id
than expected, and sends the reason::

    {"kind": "hello", "version": 0, "node": 1, "to": 2, "cluster": "q_K-…", "voters": [[1, "host", 9093], …]}
    {"kind": "refused", "reason": "…"}                         instead of a hello; the connection is closed

A node without a cluster id yet sends None and learns the id from the other node. Since KIP-853 there are optional keys,
which older nodes ignore: "directory", "kraft" (the highest kraft.version supported), "dynamic", "address" (of a
controller), "probe": the connection ends with the handshake, and "incarnation". Trio: the exchange is over a stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import trio

from minikafka.controller.quorum.peer_frames import FrameStream, MalformedFrame, encode_frame
from minikafka.controller.raft.voter_set import NO_DIRECTORY

__all__ = [
    "HANDSHAKE_SIZE_MAX",
    "LOGIN",
    "Address",
    "ConnectionLost",
    "HandshakeRefused",
    "Hello",
    "LoginRefused",
    "hello_from",
    "hello_map",
    "login_refusal",
    "refusal_of",
    "refusal_reason",
    "shake_hands",
]

VERSION = 0
LOGIN = "login"
"""The kind of frames that come before a handshake, where the listener has SASL (`node_logins.py`)."""
HANDSHAKE_SIZE_MAX = 1 << 16
Address = tuple[str, int]
"""Host and port."""


class HandshakeRefused(Exception):
    """One of the two nodes refuses the other; the text is for the operator."""


class LoginRefused(HandshakeRefused):
    """The login of a node is refused, or one of two nodes expects none: to be tried again, since users may change."""


class ConnectionLost(Exception):
    """The connection ended before the response arrived: the request may have been carried out or not."""


@dataclass(frozen=True, slots=True)
class Hello:
    """The content of a handshake frame, the first frame in each direction.

    Attributes:
        node_id: the id of the sending node.
        to: the node id expected at the other end; None if only its address is known.
        cluster_id: the cluster id of the sender; None if unknown.
        voters: the addresses of the quorum's controllers by id; empty if unknown.
        directory_id: the id of the sender's metadata directory; `NO_DIRECTORY` if unknown.
        kraft_version_max: the highest kraft.version that the sender supports.
        is_dynamic: whether the sender's quorum has kraft.version 1, as far as the sender knows.
        address: the address of the sender's own controller listener; None if the sender is no controller.
        is_probe: whether the connection ends with the handshake.
        incarnation: random bytes of a process that looks for the voters at its bootstrap servers, where it may find
            itself; a new node has no directory id yet.
    """

    node_id: int
    to: int | None
    cluster_id: str | None
    voters: Mapping[int, Address]
    directory_id: bytes = NO_DIRECTORY
    kraft_version_max: int = 0
    is_dynamic: bool = False
    address: Address | None = None
    is_probe: bool = False
    incarnation: bytes = b""


def hello_map(hello: Hello) -> dict[str, Any]:
    """Encode a `Hello` as the map of a frame."""
    voters = [[node_id, host, port] for node_id, (host, port) in sorted(hello.voters.items())]
    fields = {
        "kind": "hello",
        "version": VERSION,
        "node": hello.node_id,
        "to": hello.to,
        "cluster": hello.cluster_id,
        "voters": voters,
    }
    added = {
        "directory": hello.directory_id if hello.directory_id != NO_DIRECTORY else None,
        "kraft": hello.kraft_version_max or None,
        "dynamic": hello.is_dynamic or None,
        "address": None if hello.address is None else list(hello.address),
        "probe": hello.is_probe or None,
        "incarnation": hello.incarnation or None,
    }
    return fields | {name: value for name, value in added.items() if value is not None}


def hello_from(frame: Mapping[str, Any]) -> Hello:
    """Decode the map of a frame: the inverse of `hello_map`. Raises MalformedFrame."""
    if frame.get("kind") != "hello":
        raise MalformedFrame(f"expected a handshake, got a frame of kind {frame.get('kind')!r}")
    if frame.get("version") != VERSION:
        raise MalformedFrame(f"unsupported handshake version {frame.get('version')!r}: this node supports {VERSION}")
    node, to, cluster, voters = (frame.get(name) for name in ("node", "to", "cluster", "voters"))
    if type(node) is not int or not (to is None or type(to) is int) or not (cluster is None or type(cluster) is str):
        raise MalformedFrame("handshake with an invalid node, to or cluster")
    if not isinstance(voters, list):
        raise MalformedFrame("handshake without voters")
    return Hello(node, to, cluster, dict(map(_voter, voters)), **_added(frame))


def _added(frame: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a `Hello` that are optional in the frame, with their defaults. Raises MalformedFrame."""
    directory, kraft = frame.get("directory", NO_DIRECTORY), frame.get("kraft", 0)
    if type(directory) is not bytes or len(directory) != len(NO_DIRECTORY) or type(kraft) is not int:
        raise MalformedFrame("handshake with an invalid directory or kraft")
    incarnation = frame.get("incarnation", b"")
    if type(incarnation) is not bytes:
        raise MalformedFrame("handshake with an invalid incarnation")
    match frame.get("address"):
        case None:
            address = None
        case [str() as host, int() as port]:
            address = (host, port)
        case other:
            raise MalformedFrame(f"handshake with an invalid address: {other!r}")
    return {
        "directory_id": directory,
        "kraft_version_max": kraft,
        "is_dynamic": frame.get("dynamic") is True,
        "address": address,
        "is_probe": frame.get("probe") is True,
        "incarnation": incarnation,
    }


def _voter(entry: object) -> tuple[int, Address]:
    match entry:
        case [int() as node_id, str() as host, int() as port]:
            return node_id, (host, port)
        case _:
            raise MalformedFrame(f"handshake with an invalid voter: {entry!r}")


def refusal_reason(own: Hello, other: Hello) -> str | None:
    """The reason why the two nodes must not communicate, in words for the operator; None if they may."""
    if None not in (own.cluster_id, other.cluster_id) and own.cluster_id != other.cluster_id:
        return (
            f"node {other.node_id} belongs to cluster {other.cluster_id}, node {own.node_id} to {own.cluster_id}: "
            "controller.quorum.voters or controller.quorum.bootstrap.servers must name nodes of one cluster"
        )
    if other.to not in (None, own.node_id):
        return _wrong_node(other.to, own.node_id)
    if own.to not in (None, other.node_id):
        return _wrong_node(own.to, other.node_id)
    if own.node_id == other.node_id and not _is_itself(own, other):
        return f"two nodes have node.id={own.node_id}: each needs a different node.id"
    return None


def _is_itself(own: Hello, other: Hello) -> bool:
    """Whether a node has reached itself: one of its bootstrap servers may be its own address."""
    is_same = (own.directory_id, own.incarnation) == (other.directory_id, other.incarnation)
    return is_same and (own.to, other.to) == (None, None)


def _wrong_node(wanted: int | None, found: int) -> str:
    return f"node {wanted} was expected at this address, but node {found} is there: see controller.quorum.voters"


def login_refusal(reason: str) -> bytes:
    """The frame that tells a node that it should log in, or should not."""
    text = f"{reason} (listener.security.protocol.map must be the same on all nodes)"
    return encode_frame({"kind": "refused", "reason": text, "login": True})


def refusal_of(frame: Mapping[str, Any]) -> HandshakeRefused:
    """The error of a frame of kind "refused"."""
    return (LoginRefused if frame.get("login") else HandshakeRefused)(str(frame.get("reason")))


async def shake_hands(stream: trio.abc.Stream, frames: FrameStream, own: Hello, *, first: bool) -> Hello:
    """Exchange handshakes; return the handshake of the other node.

    Args:
        stream: the connection, to write to.
        frames: the frames that arrive on the connection.
        own: the handshake of this node.
        first: whether this node sends first, because it opened the connection.

    Raises:
        HandshakeRefused: one of the nodes refuses the other. A node that did not send first sends its reason.
        MalformedFrame, ConnectionLost, OSError, trio.BrokenResourceError: the other end is not a node, or is gone.
    """
    if first:
        await stream.send_all(encode_frame(hello_map(own)))
    frame = await frames.next()
    if frame is None:
        raise ConnectionLost("the connection was closed during the handshake; the log of the other node may say why")
    if frame["kind"] == "refused":
        raise refusal_of(frame)
    if frame["kind"] == LOGIN and not first:
        await stream.send_all(login_refusal("this listener takes no login"))
        raise HandshakeRefused("a node logs in by SASL, and the listener takes no login")
    other = hello_from(frame)
    reason = refusal_reason(own, other)
    if reason is not None:
        if not first:
            await stream.send_all(encode_frame({"kind": "refused", "reason": reason}))
        raise HandshakeRefused(reason)
    if not first:
        await stream.send_all(encode_frame(hello_map(own)))
    return other
