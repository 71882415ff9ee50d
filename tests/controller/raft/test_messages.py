"""The encoding of Raft messages, and malformed messages."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from minikafka.controller.raft.log_interface import EpochEnd, SnapshotId
from minikafka.controller.raft.messages import (
    RESPONSE_OF,
    BadMessage,
    BeginEpoch,
    BeginEpochResponse,
    Fetch,
    FetchResponse,
    FetchSnapshot,
    FetchSnapshotResponse,
    Request,
    Response,
    Vote,
    VoteResponse,
    request_from_map,
    response_from_map,
)

SNAPSHOT = SnapshotId(9, 3)
REQUESTS: list[Request] = [
    Vote(5, 2, 4, 17, pre_vote=True),
    Vote(5, 2, 4, 17, False, b"a" * 16, b"b" * 16),
    BeginEpoch(5, 2),
    Fetch(5, 2, 17, 4, 16, 300, 1 << 20),
    Fetch(5, 2, 17, 4, 16, 300, 1 << 20, b"a" * 16),
    FetchSnapshot(5, 2, SNAPSHOT, 100, 1 << 20),
    FetchSnapshot(5, 2, SNAPSHOT, 100, 1 << 20, b"a" * 16),
]
RESPONSES: list[Response] = [
    VoteResponse(5, -1, granted=False),
    BeginEpochResponse(5, 2),
    FetchResponse(5, 2, b"\0\1", high_watermark=3, log_start=1),
    FetchResponse(5, 2, diverging=EpochEnd(4, 17)),
    FetchResponse(5, 2, snapshot=SNAPSHOT),
    FetchSnapshotResponse(5, 2, SNAPSHOT),
    FetchSnapshotResponse(5, 2, SNAPSHOT, 3, 0, b"abc"),
]


@pytest.mark.parametrize("message", REQUESTS, ids=lambda message: message.KIND)
def test_a_request_survives_encoding(message: Request) -> None:
    assert request_from_map(msgpack.unpackb(msgpack.packb(message.to_map()))) == message


def test_a_static_quorum_sends_what_it_sent_before_kip_853() -> None:
    plain = Vote(5, 2, 4, 17, pre_vote=True).to_map()
    assert plain == {
        "kind": "vote",
        "version": 0,
        "epoch": 5,
        "candidate": 2,
        "last_epoch": 4,
        "last_offset": 17,
        "pre_vote": True,
    }
    assert Fetch(5, 2, 17, 4, 16, 300, 1 << 20).to_map()["version"] == 0


@pytest.mark.parametrize("directory", [b"", b"a" * 15, "a" * 16, None])
def test_an_invalid_directory_is_refused(directory: object) -> None:
    plain = Fetch(5, 2, 17, 4, 16, 300, 1 << 20, b"a" * 16).to_map()
    with pytest.raises(BadMessage, match="directory"):
        request_from_map(plain | {"directory": directory})


@pytest.mark.parametrize("message", RESPONSES, ids=lambda message: message.KIND)
def test_a_response_survives_encoding(message: Response) -> None:
    again = response_from_map(msgpack.unpackb(msgpack.packb(message.to_map())))
    assert again == message
    assert type(again) in RESPONSE_OF.values()


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "fetch-answer"},
        {"kind": "riddle"},
        {"kind": 7},
        {"version": 1},
        {"epoch": -1},
        {"epoch": 1 << 31},
        {"epoch": True},
        {"epoch": "5"},
        {"candidate": -1},
        {"last_offset": 1.5},
        {"pre_vote": 1},
        {"surprise": 0},
    ],
    ids=str,
)
def test_invalid_fields_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadMessage):
        request_from_map(REQUESTS[0].to_map() | change)


@pytest.mark.parametrize("field", ["kind", "version", "epoch", "pre_vote"])
def test_missing_fields_are_refused(field: str) -> None:
    plain = REQUESTS[0].to_map()
    del plain[field]
    with pytest.raises(BadMessage):
        request_from_map(plain)


@pytest.mark.parametrize("plain", [None, [], "vote", 5, {}, {1: 2}])
def test_other_values_are_refused(plain: object) -> None:
    with pytest.raises(BadMessage):
        request_from_map(plain)
    with pytest.raises(BadMessage):
        response_from_map(plain)


@pytest.mark.parametrize("snapshot", [None, 5, [1], [1, 2, 3], [-1, 0], ["a", "b"]])
def test_a_snapshot_is_two_numbers(snapshot: object) -> None:
    with pytest.raises(BadMessage):
        request_from_map(REQUESTS[3].to_map() | {"snapshot": snapshot})


def test_a_request_is_not_a_response() -> None:
    with pytest.raises(BadMessage):
        response_from_map(REQUESTS[0].to_map())
    with pytest.raises(BadMessage):
        request_from_map(RESPONSES[0].to_map())
