"""What the nodes of a cluster say to each other on the controller listener, as bytes. Pure.

A frame is a 4-byte length and a msgpack map. The first one each way is a hello: who speaks, of which cluster, and whom
it believes to be talking to. After it come questions and answers, each with a number::

    {"kind": "hello", "version": 0, "node": 1, "to": 2, "cluster": "q_K-…", "voters": [[1, "host", 9093], …]}
    {"kind": "refused", "reason": "…"}                         instead of a hello; the connection ends
    {"kind": "ask", "id": 7, "what": "raft", "body": {…}}      either side asks
    {"kind": "answer", "id": 7, "body": {…}}

A node that knows of no cluster yet has None as its cluster, which is nobody's enemy: it learns the id from the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgpack

__all__ = [
    "Address",
    "BadFrame",
    "Hello",
    "decode_frame",
    "encode_frame",
    "hello_from",
    "hello_map",
    "objection",
]

VERSION = 0
Address = tuple[str, int]
"""Host and port."""

_BYTES_MAX = (1 << 31) - 1


class BadFrame(ValueError):
    """Not a frame of this protocol: the connection is of no use."""


@dataclass(frozen=True, slots=True)
class Hello:
    """How a node introduces itself.

    Attributes:
        to: the node that it believes to talk to; None where it only has an address.
        cluster_id: None where it knows of none yet.
        voters: where the controllers of the quorum are, by id; empty where that is not known.
    """

    node_id: int
    to: int | None
    cluster_id: str | None
    voters: Mapping[int, Address]


def hello_map(hello: Hello) -> dict[str, Any]:
    """The first frame."""
    voters = [[node_id, host, port] for node_id, (host, port) in sorted(hello.voters.items())]
    return {
        "kind": "hello",
        "version": VERSION,
        "node": hello.node_id,
        "to": hello.to,
        "cluster": hello.cluster_id,
        "voters": voters,
    }


def hello_from(frame: Mapping[str, Any]) -> Hello:
    """The hello that a first frame is. Raises BadFrame."""
    if frame.get("kind") != "hello":
        raise BadFrame(f"a connection begins with a hello, not with {frame.get('kind')!r}")
    if frame.get("version") != VERSION:
        raise BadFrame(f"the other node speaks version {frame.get('version')!r} of this protocol, this one {VERSION}")
    node, to, cluster, voters = (frame.get(name) for name in ("node", "to", "cluster", "voters"))
    if type(node) is not int or not (to is None or type(to) is int) or not (cluster is None or type(cluster) is str):
        raise BadFrame("a hello without a node, or with one that is none")
    if not isinstance(voters, list):
        raise BadFrame("a hello without voters")
    return Hello(node, to, cluster, dict(map(_voter, voters)))


def _voter(entry: object) -> tuple[int, Address]:
    match entry:
        case [int() as node_id, str() as host, int() as port]:
            return node_id, (host, port)
        case _:
            raise BadFrame(f"no voter: {entry!r}")


def objection(own: Hello, other: Hello) -> str | None:
    """Why the two must not talk, in words for whoever set them up; None where they may."""
    if None not in (own.cluster_id, other.cluster_id) and own.cluster_id != other.cluster_id:
        return (
            f"node {other.node_id} belongs to cluster {other.cluster_id}, node {own.node_id} to {own.cluster_id}: "
            "controller.quorum.voters must name nodes of one cluster"
        )
    if other.to not in (None, own.node_id):
        return _wrong_node(other.to, own.node_id)
    if own.to not in (None, other.node_id):
        return _wrong_node(own.to, other.node_id)
    if own.node_id == other.node_id and (own.to, other.to) != (None, None):  # who looks for voters may find itself
        return f"two nodes have node.id={own.node_id}: each needs one of its own"
    return None


def _wrong_node(wanted: int | None, found: int) -> str:
    return f"node {wanted} was expected at this address, but node {found} is there: see controller.quorum.voters"


def encode_frame(frame: Mapping[str, Any]) -> bytes:
    """The bytes of a frame, with their length before them."""
    body: bytes = msgpack.packb(frame)
    return len(body).to_bytes(4, "big") + body


def decode_frame(data: bytes | bytearray) -> dict[str, Any]:
    """The map of a frame, given without its length. Raises BadFrame."""
    try:
        frame = msgpack.unpackb(data, max_bin_len=_BYTES_MAX, strict_map_key=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise BadFrame(f"not msgpack: {error}") from None
    if not isinstance(frame, dict) or not isinstance(frame.get("kind"), str):
        raise BadFrame("a frame is a map with a kind")
    return frame
