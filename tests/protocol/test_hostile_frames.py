"""Malformed bytes raise `MalformedMessage` and nothing else, and allocate no memory for claimed lengths."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from support.wire_messages import random_message, versions_of_message

from minikafka.protocol.apis import APIS
from minikafka.protocol.headers import decode_response, encode_request, parse_request_header, response_parts
from minikafka.protocol.message import MalformedMessage, decode

FRAMES = 100_000
ODD_BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFE, 0xFF)
ODD_NUMBERS = tuple(map(bytes.fromhex, ("7fffffff", "80000000", "ffffffff", "ffffffff0f", "7fff", "ffff")))

Mutation = Callable[[bytearray, random.Random], None]


def flip(frame: bytearray, seeded: random.Random) -> None:
    frame[seeded.randrange(len(frame))] ^= 1 << seeded.randrange(8)


def replace(frame: bytearray, seeded: random.Random) -> None:
    frame[seeded.randrange(len(frame))] = seeded.choice(ODD_BYTES)


def cut(frame: bytearray, seeded: random.Random) -> None:
    del frame[seeded.randrange(len(frame)) :]


def claim(frame: bytearray, seeded: random.Random) -> None:
    """Overwrite a random position, possibly a length, with an unusual number."""
    number, at = seeded.choice(ODD_NUMBERS), seeded.randrange(len(frame))
    frame[at : at + len(number)] = number


def insert(frame: bytearray, seeded: random.Random) -> None:
    at = seeded.randrange(len(frame))
    frame[at:at] = seeded.randbytes(seeded.randrange(1, 6))


def remove(frame: bytearray, seeded: random.Random) -> None:
    at = seeded.randrange(len(frame))
    del frame[at : at + seeded.randrange(1, 6)]


def scramble(frame: bytearray, seeded: random.Random) -> None:
    at = seeded.randrange(8, len(frame) + 1)
    frame[at:] = seeded.randbytes(len(frame) - at)


MUTATIONS: tuple[Mutation, ...] = (flip, replace, cut, claim, claim, insert, remove, scramble)


def serve(frame: bytes | bytearray) -> None:
    """Decode a frame as a node does."""
    header, position = parse_request_header(frame)
    decode(APIS[header.api_key].request, header.api_version, frame, position)


def sound_requests(seeded: random.Random) -> list[bytes]:
    """A random well-formed request of every version of every API."""
    return [
        encode_request(random_message(api.request, version, seeded), version, 1, "client")[4:]
        for api in APIS.values()
        for version in versions_of_message(api.request)
    ]


@pytest.mark.slow
def test_mutated_requests_raise_malformed_message_only() -> None:
    seeded = random.Random("hostile requests")
    refused = 0
    frames = sound_requests(seeded)
    for number in range(FRAMES):
        frame = bytearray(frames[number % len(frames)])
        for _ in range(seeded.randrange(1, 3)):
            if len(frame) >= 8:
                seeded.choice(MUTATIONS)(frame, seeded)
        try:
            serve(frame)
        except MalformedMessage:
            refused += 1
    assert FRAMES // 4 < refused < FRAMES


def test_mutated_responses_raise_malformed_message_only() -> None:
    seeded = random.Random("hostile responses")
    for api in APIS.values():
        for version in versions_of_message(api.response):
            (sound,) = response_parts(random_message(api.response, version, seeded), version, 1)
            for _ in range(20):
                frame = bytearray(sound[4:])
                seeded.choice(MUTATIONS)(frame, seeded) if len(frame) >= 8 else None
                try:
                    decode_response(api.response, version, frame)
                except MalformedMessage:
                    continue


def test_garbage_raises_malformed_message_only() -> None:
    seeded = random.Random("garbage")
    for _ in range(5_000):
        with pytest.raises(MalformedMessage):
            serve(b"\x00" + bytes([seeded.randrange(76)]) + b"\x00\x63" + seeded.randbytes(seeded.randrange(60)))


@pytest.mark.slow
def test_a_claim_costs_no_memory() -> None:
    """Replaces each length and count of every request in turn by two billion."""
    seeded = random.Random("claims")
    frames = [frame for frame in sound_requests(seeded) if len(frame) < 400]
    for frame in frames:
        _try(frame)  # compiles the decoder, which is not measured
    tracemalloc.start()
    try:
        for frame in frames:
            for at in range(8, len(frame), 3):
                for number in (b"\x77\x35\x94\x00", b"\x80\xa8\xd6\xb9\x07"):
                    _try(frame[:at] + number + frame[at + len(number) :])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def _try(frame: bytes) -> Any:
    try:
        serve(frame)
    except MalformedMessage:
        return None
