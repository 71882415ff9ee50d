"""Frames between nodes: malformed frames and the size limit."""

import pytest
import trio
import trio.testing

from minikafka.controller.quorum.peer_frames import FrameStream, MalformedFrame, decode_frame, encode_frame


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x90", b"\x80", b"\x81\xa4kind\x01", b"\xdf\xff\xff\xff\xff", b"\x81\x01\x02"]
)
def test_malformed_frames(data: bytes) -> None:
    with pytest.raises(MalformedFrame):
        decode_frame(data)


def test_frames_are_limited() -> None:
    async def main() -> None:
        here, there = trio.testing.memory_stream_pair()
        frames = FrameStream(there, 100)
        await here.send_all(encode_frame({"kind": "x" * 200}))
        with pytest.raises(MalformedFrame, match="must be 1 to 100"):
            await frames.next()

    trio.run(main)
