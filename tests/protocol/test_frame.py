"""Frames are the same however their bytes arrive, and nothing is allocated before bytes arrive."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol.frame import FIRST_SIZE_BYTES, GROWTH_SIZE_BYTES, FrameReader, OversizedFrame


def framed(bodies: list[bytes]) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=6), st.data())
def test_any_split_of_the_stream_gives_the_same_frames(bodies: list[bytes], data: st.DataObject) -> None:
    stream = framed(bodies)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    reader, frames = FrameReader(1000), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        frames += reader.feed(memoryview(stream[begin:end]))
    assert [bytes(frame) for frame in frames] == bodies
    assert reader.target is None


@pytest.mark.parametrize("size", [0, -1, -(2**31), 101, 2**31 - 1, 0x47455420])
def test_an_invalid_size_is_rejected_at_once(size: int) -> None:
    with pytest.raises(OversizedFrame, match=str(size)):
        FrameReader(100).feed(memoryview(size.to_bytes(4, "big", signed=True)))


def test_frames_before_an_invalid_size_are_returned() -> None:
    reader = FrameReader(100)
    assert reader.feed(memoryview(framed([b"first", b"second"]) + b"\xff\xff\xff\xff")) == [b"first", b"second"]
    with pytest.raises(OversizedFrame, match="-1"):
        reader.feed(memoryview(b"x"))
    with pytest.raises(OversizedFrame, match="-1"):
        _ = reader.target


def test_a_large_frame_is_received_directly_and_its_buffer_grows_as_bytes_arrive() -> None:
    size = 5 * GROWTH_SIZE_BYTES + 17
    reader = FrameReader(size)
    assert reader.feed(memoryview(size.to_bytes(4, "big") + b"ab")) == []
    received = 2
    frame = None
    while frame is None:
        with reader.target as target:  # type: ignore[union-attr]
            assert len(target) + received <= max(2 * received, GROWTH_SIZE_BYTES), "buffer too large"
            count = min(len(target), 700_001)
            target[:count] = b"x" * count
        received += count
        frame = reader.received(count)
    assert bytes(frame) == b"ab" + b"x" * (size - 2)


@pytest.mark.parametrize("arrived", [0, 2, FIRST_SIZE_BYTES - 1, 3 * FIRST_SIZE_BYTES])
def test_a_frame_of_which_a_part_arrived_takes_no_more_memory_than_that_part_until_it_is_read_on(arrived: int) -> None:
    size = 100 << 20
    reader = FrameReader(size)
    data = memoryview(size.to_bytes(4, "big") + bytes(arrived))
    tracemalloc.start()
    try:
        assert reader.feed(data) == []
        occupied, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert occupied < max(FIRST_SIZE_BYTES, arrived) + 4096
    assert reader.is_partial


def test_the_bytes_after_a_large_frame_begin_the_next_one() -> None:
    reader = FrameReader(10)
    frames = reader.feed(memoryview(framed([b"first", b"second", b"x"])[:-1]))
    assert [bytes(frame) for frame in frames] == [b"first", b"second"]
    assert [bytes(frame) for frame in reader.feed(memoryview(b"y"))] == [b"y"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"GET / HTTP/1.1\r\n", "this is an HTTP request"),
        (b"POST /topics HTTP/1.1\r\n", "this is an HTTP request"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "this is a TLS handshake"),
    ],
)
def test_another_protocol_is_called_by_its_name(data: bytes, said: str) -> None:
    with pytest.raises(OversizedFrame, match=said):
        FrameReader(100 << 20).feed(memoryview(data))


def test_any_other_size_is_only_a_size() -> None:
    with pytest.raises(OversizedFrame, match=r"bytes$"):
        FrameReader(100).feed(memoryview(b"\x00\x00\x10\x00"))
