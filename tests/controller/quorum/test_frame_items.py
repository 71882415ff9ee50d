"""The items of a frame are counted as msgpack's own decoder finds them, and what is too much is refused unread."""

import struct
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.controller.quorum.frame_items import LONG_ITEM_COST, check_items
from minikafka.controller.quorum.peer_frames import ITEMS_SIZE_MAX, MalformedFrame, decode_frame, encode_frame
from minikafka.controller.quorum.quorum_description import QuorumDescription, ReplicaDescription

SCALARS = st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
ITEMS = st.recursive(
    SCALARS | TEXTS | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(TEXTS, inner, max_size=40),
)
MANY = 1 << 23


@given(ITEMS)
def test_every_item_is_found(item: Any) -> None:
    """The items of a frame end where it ends: one byte more is another item."""
    data = msgpack.packb(item)
    check_items(data, 2 * LONG_ITEM_COST * len(data))
    with pytest.raises(ValueError, match="begins with 0xc1"):
        check_items(data + b"\xc1", 2 * LONG_ITEM_COST * len(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_counted_or_refused(data: bytes) -> None:
    """msgpack finds no more than was counted; it writes a number of five bytes as nine."""
    try:
        check_items(data, 50)
        found = msgpack.unpackb(data)
    except (ValueError, msgpack.UnpackException):
        return
    assert len(msgpack.packb(found)) <= 100 + sum(map(len, _byte_strings(found)))


def _byte_strings(item: Any) -> list[bytes]:
    match item:
        case bytes():
            return [item]
        case dict():
            return _byte_strings([*item.keys(), *item.values()])
        case list():
            return [found for inner in item for found in _byte_strings(inner)]
    return []


def _body(content: bytes) -> bytes:
    return b"\x84\xa4kind\xa3ask\xa2id\x01\xa4what\xa1x\xa4body\x81\xa1y" + content


@pytest.mark.parametrize(
    "content",
    [
        b"\xdd" + struct.pack(">I", MANY) + b"\x80" * MANY,
        b"\xdf" + struct.pack(">I", MANY // 3) + b"\xa1k\x80" * (MANY // 3),
        b"\xdc\x00\x0f" + (b"\xdd" + struct.pack(">I", MANY // 16) + b"\x90" * (MANY // 16)) * 15,
        b"\xdb" + struct.pack(">I", MANY) + "é".encode() * (MANY // 2),
        b"\xdd\x00\x0f\xff\xff" * 900 + b"\x00" * (1 << 20),
        b"\xdc\xff\xff" * 900 + b"\x00" * 1000,
    ],
    ids=["maps", "keys", "arrays", "letters", "announced", "announced in a small frame"],
)
def test_a_frame_of_many_items_takes_no_memory(content: bytes) -> None:
    frame = _body(content)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedFrame, match="bytes that are not byte strings"):
            decode_frame(frame)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("extension", [b"\xd4\x05a", b"\xc7\x01\x05a", b"\xd6\xff\x00\x00\x00\x01", b"\xc1"])
def test_items_that_no_frame_has_are_refused(extension: bytes) -> None:
    with pytest.raises(MalformedFrame, match=f"begins with {extension[0]:#x}"):
        decode_frame(_body(extension))


def test_large_records_and_the_largest_description_are_read() -> None:
    records = {"kind": "answer", "id": 1, "body": {"records": bytes(MANY)}}
    assert decode_frame(encode_frame(records)[4:]) == records
    replica = ReplicaDescription(1 << 30, True, 1 << 40, 1 << 41, 1 << 41, b"d" * 16)
    described = {"kind": "answer", "id": 1, "body": QuorumDescription(1, 1, 1, (replica,) * 1_003).to_map()}
    assert decode_frame(encode_frame(described)[4:]) == described
    assert ITEMS_SIZE_MAX < 1 << 17  # or counting takes more than 20 ms
