"""Request and response headers."""

from __future__ import annotations

from typing import Any

import pytest
from support.wire_messages import REQUESTS_AND_RESPONSES, every_version, name_of

from minikafka.protocol.apis import APIS, api_of
from minikafka.protocol.codec.schema import fresh
from minikafka.protocol.headers import (
    RequestHeader,
    UnknownApi,
    decode_response,
    encode_request,
    parse_request_header,
    response_parts,
)
from minikafka.protocol.message import MalformedMessage, UnsupportedVersion, decode, encode
from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.produce import PartitionProduceData

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class TestRequests:
    def test_a_plain_header_is_v1(self) -> None:
        frame = encode_request(HEARTBEAT, 3, 77, "me")
        assert frame[:4] == (len(frame) - 4).to_bytes(4, "big")
        assert frame[4:16] == b"\x00\x0c\x00\x03\x00\x00\x00\x4d\x00\x02me"
        assert frame[16:] == encode(HEARTBEAT, 3)

    def test_a_flexible_header_is_v2_with_the_old_client_id(self) -> None:
        frame = encode_request(HEARTBEAT, 4, 77, "me")
        assert frame[4:17] == b"\x00\x0c\x00\x04\x00\x00\x00\x4d\x00\x02me\x00"
        assert frame[17:] == encode(HEARTBEAT, 4)

    @pytest.mark.parametrize("client_id", ["me", "", None, "ü" * 300])
    @pytest.mark.parametrize("version", [0, 4])
    def test_round_trip(self, client_id: str | None, version: int) -> None:
        frame = encode_request(HEARTBEAT, version, -5, client_id)[4:]
        for buffer in (frame, bytearray(frame), memoryview(frame)):
            header, position = parse_request_header(buffer)
            assert header == RequestHeader(12, version, -5, client_id)
            assert decode(HeartbeatRequest, version, buffer, position) == HEARTBEAT

    def test_a_client_id_that_is_not_utf_8_is_replaced(self) -> None:
        frame = encode_request(HEARTBEAT, 4, 1, "xyz")[4:].replace(b"xyz", b"J\xfcr")
        header, position = parse_request_header(frame)
        assert header.client_id == "J\ufffdr"
        assert decode(HeartbeatRequest, 4, frame, position) == HEARTBEAT

    def test_tagged_fields_of_the_header_are_skipped(self) -> None:
        frame = b"\x00\x0c\x00\x04\x00\x00\x00\x01\xff\xff" + b"\x02\x00\x03abc\x07\x00" + encode(HEARTBEAT, 4)
        header, position = parse_request_header(frame)
        assert header == RequestHeader(12, 4, 1, None)
        assert decode(HeartbeatRequest, 4, frame, position) == HEARTBEAT

    def test_an_unknown_version_still_has_a_header(self) -> None:
        frame = b"\x00\x12\x00\x63\x00\x00\x00\x09\x00\x01x\x00rest"
        header, position = parse_request_header(frame)
        assert (header.api_version, header.correlation_id, position) == (99, 9, 12)
        with pytest.raises(UnsupportedVersion):
            decode(ApiVersionsRequest, 99, frame, position)

    def test_an_unknown_key(self) -> None:
        with pytest.raises(UnknownApi, match="4711"):
            parse_request_header((4711).to_bytes(2, "big") + bytes(20))

    @pytest.mark.parametrize(
        "frame",
        [
            b"",
            b"\x00\x0c",
            b"\x00\x0c\x00\x04\x00\x00\x00\x01\x00",
            b"\x00\x0c\x00\x04\x00\x00\x00\x01\x00\x05abc",
            b"\x00\x0c\x00\x04\x00\x00\x00\x01\xff\xff",
            b"\x00\x0c\x00\x04\x00\x00\x00\x01\xff\xff\x01\x00\x7f",
            b"\x00\x0c\x00\x04\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff",
        ],
    )
    def test_malformed_request_headers(self, frame: bytes) -> None:
        with pytest.raises(MalformedMessage):
            parse_request_header(frame)


class TestResponses:
    def test_the_first_part_contains_the_total_size(self) -> None:
        parts = response_parts(fetch_response(b"x" * 10), 12, 5)
        assert len(parts) == 1
        assert parts[0][:9] == (len(parts[0]) - 4).to_bytes(4, "big") + b"\x00\x00\x00\x05\x00"

    def test_the_total_size_includes_slices_of_files(self) -> None:
        parts = response_parts(fetch_response(range(1000)), 12, 5)
        assert [type(part) for part in parts] == [bytes, range, bytes]
        assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4

    def test_round_trip_of_plain_and_flexible_headers(self) -> None:
        response = HeartbeatResponse(error_code=27)
        for version in range(5):
            (frame,) = response_parts(response, version, 1234)
            assert decode_response(HeartbeatResponse, version, frame[4:]) == (1234, response)

    def test_the_header_of_api_versions_is_always_v0(self) -> None:
        response = ApiVersionsResponse(error_code=35)
        (frame,) = response_parts(response, 4, 6)
        assert frame[4:10] == b"\x00\x00\x00\x06\x00\x23"
        assert decode_response(ApiVersionsResponse, 4, memoryview(frame)[4:]) == (6, response)

    @pytest.mark.parametrize("frame", [b"", b"\x00\x00\x00", b"\x00\x00\x00\x01", b"\x00\x00\x00\x01\x01\x00\x09"])
    def test_malformed_responses(self, frame: bytes) -> None:
        with pytest.raises(MalformedMessage):
            decode_response(HeartbeatResponse, 4, frame)


def fetch_response(records: Any) -> FetchResponse:
    partition = PartitionData(aborted_transactions=None, records=records)
    return FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])


@pytest.mark.parametrize(("cls", "version"), every_version(REQUESTS_AND_RESPONSES), ids=name_of)
def test_every_message_round_trips_in_a_frame(cls: Any, version: int) -> None:
    original = fresh(cls)
    if cls is api_of(cls).request:
        frame = encode_request(original, version, 9, "c")[4:]
        header, position = parse_request_header(frame)
        assert (header.api_key, header.api_version) == (api_of(cls).key, version)
        assert decode(cls, version, frame, position) == original
    else:
        (frame,) = response_parts(original, version, 9)
        assert decode_response(cls, version, frame[4:]) == (9, original)


def test_a_struct_belongs_to_no_api() -> None:
    with pytest.raises(TypeError, match="neither"):
        api_of(PartitionProduceData)
    assert list(APIS) == sorted(APIS)
