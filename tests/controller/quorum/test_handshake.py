"""The handshake of two nodes: encoding, reasons to refuse a node, malformed handshakes."""

from dataclasses import replace
from typing import Any

import pytest

from minikafka.controller.quorum.handshake import Hello, hello_from, hello_map, refusal_reason
from minikafka.controller.quorum.peer_frames import MalformedFrame, decode_frame, encode_frame

VOTERS = {1: ("node-1", 9093), 2: ("node-2", 9093), 3: ("node-3", 9093)}


def hello(node_id: int = 1, to: int | None = None, cluster_id: str | None = None) -> Hello:
    return Hello(node_id, to, cluster_id, VOTERS)


def test_a_handshake_survives_encoding() -> None:
    for one in (hello(), hello(1, 2, "a-cluster"), replace(hello(), incarnation=b"a" * 16)):
        assert hello_from(decode_frame(encode_frame(hello_map(one))[4:])) == one


@pytest.mark.parametrize(
    ("own", "other", "word"),
    [
        (hello(1), hello(2, 1), None),
        (hello(1, cluster_id="a"), hello(2, 1, None), None),
        (hello(1), hello(2), None),
        (hello(1), hello(1), None),
        (hello(1, cluster_id="a"), hello(2, 1, "b"), "node 2 belongs to cluster b, node 1 to a"),
        (hello(1), hello(2, 3), "node 3 was expected at this address, but node 1 is there"),
        (hello(1, 3), hello(2), "node 3 was expected at this address, but node 2 is there"),
        (hello(1), hello(1, 1), "two nodes have node.id=1"),
        (replace(hello(1), directory_id=b"a" * 16), replace(hello(1), directory_id=b"a" * 16), None),
        (replace(hello(1), directory_id=b"a" * 16), replace(hello(1), directory_id=b"b" * 16), "two nodes have node"),
        (replace(hello(1), directory_id=b"a" * 16), hello(1), "two nodes have node.id=1"),
        (replace(hello(1), incarnation=b"a"), replace(hello(1), incarnation=b"a"), None),
        (replace(hello(1), incarnation=b"a"), replace(hello(1), incarnation=b"b"), "two nodes have node.id=1"),
        (replace(hello(1), incarnation=b"a"), hello(1), "two nodes have node.id=1"),
        (replace(hello(1), incarnation=b"a"), replace(hello(2), incarnation=b"b"), None),
    ],
)
def test_refusal_reasons(own: Hello, other: Hello, word: str | None) -> None:
    found = refusal_reason(own, other)
    assert found is None if word is None else found is not None and word in found


@pytest.mark.parametrize(
    "frame",
    [
        {"kind": "ask"},
        {**hello_map(hello()), "version": 1},
        {**hello_map(hello()), "node": "1"},
        {**hello_map(hello()), "to": "1"},
        {**hello_map(hello()), "cluster": 7},
        {**hello_map(hello()), "voters": None},
        {**hello_map(hello()), "voters": [[1, "host"]]},
        {**hello_map(hello()), "incarnation": "a"},
    ],
)
def test_malformed_handshakes(frame: dict[str, Any]) -> None:
    with pytest.raises(MalformedFrame):
        hello_from(frame)
