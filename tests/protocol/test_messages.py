"""The compiled codec agrees with a plain interpreter of the same declarations, for every version."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.wire_interpreter import interpret_decode, interpret_encode
from support.wire_messages import ALL, every_version, messages, name_of, random_message, versions_of_message

from minikafka.protocol.codec import compile_encoder
from minikafka.protocol.message import (
    FRESH,
    MalformedMessage,
    UnencodableMessage,
    UnsupportedField,
    UnsupportedVersion,
    decode,
    decode_from,
    encode,
    encode_parts,
    field,
    message,
    struct,
)
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from minikafka.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from minikafka.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.messages.produce import ProduceRequest
from minikafka.protocol.types import int16, int32, string

EACH = settings(
    max_examples=6, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "version"), every_version(ALL), ids=name_of)
def test_compiled_codec_agrees_with_the_interpreter(cls: Any, version: int) -> None:
    @EACH
    @given(messages(cls, version), st.binary(max_size=3))
    def check(original: Any, rest: bytes) -> None:
        data = encode(original, version)
        assert data == interpret_encode(original, version)
        for buffer in (data + rest, bytearray(data + rest), memoryview(b"before" + data + rest)[6:]):
            decoded, end = decode_from(cls, version, buffer, 0)
            assert decoded == original
            assert end == len(data)
        assert interpret_decode(cls, version, data) == original

    check()


@pytest.mark.parametrize("cls", [cls for cls in ALL if name_of(cls).endswith("Response")], ids=name_of)
def test_a_response_of_many_pieces_has_the_same_bytes_in_several_parts(
    cls: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compile_encoder, "PIECES_MAX", 0)
    seeded = random.Random(cls.__name__)
    for version in versions_of_message(cls):
        in_parts = compile_encoder.encoder_source(cls, version).compile("encode")
        for _ in range(3):
            original = random_message(cls, version, seeded)
            assert b"".join(in_parts(original)) == interpret_encode(original, version)


def test_the_pieces_of_a_response_take_little_more_than_its_bytes() -> None:
    synonym = DescribeConfigsSynonym(name="name", value="1", source=5)
    config = DescribeConfigsResourceResult(
        name="name", value="1", read_only=False, config_source=5, is_sensitive=False, synonyms=[synonym]
    )
    results = [
        DescribeConfigsResult(error_message="", resource_type=32, resource_name=f"g{number}", configs=[config] * 20)
        for number in range(2_000)
    ]
    response = DescribeConfigsResponse(results=results)
    size_bytes = len(encode(response, 4))
    tracemalloc.start()
    try:
        parts = encode_parts(response, 4)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(map(len, parts)) == size_bytes
    assert peak_bytes < 1.5 * size_bytes


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_every_prefix_of_a_message_is_malformed(cls: Any) -> None:
    seeded = random.Random(cls.__name__)
    for version in versions_of_message(cls):
        data = encode(random_message(cls, version, seeded), version)
        for size in range(0, len(data), 1 + len(data) // 40):
            with pytest.raises(MalformedMessage):
                decode(cls, version, data[:size])


class TestClasses:
    def test_takes_keywords_and_has_slots(self) -> None:
        request = FetchRequest(max_wait_ms=5)
        assert request.max_wait_ms == 5
        assert request.max_bytes == 0x7FFF_FFFF
        with pytest.raises(AttributeError):
            request.max_wait = 6  # type: ignore[attr-defined]
        with pytest.raises(TypeError):
            FetchRequest(max_wait=5)  # type: ignore[call-arg]

    def test_default_lists_and_structs_are_not_shared(self) -> None:
        first, second = FetchRequest(), FetchRequest()
        first.topics.append(None)  # type: ignore[arg-type]
        first.replica_state.replica_id = 7
        assert second == FetchRequest()

    def test_a_nullable_field_without_default_must_be_given(self) -> None:
        with pytest.raises(TypeError, match="topics"):
            MetadataRequest()  # type: ignore[call-arg]

    def test_compares_by_value_and_only_with_its_own_class(self) -> None:
        assert MetadataRequest(topics=None) == MetadataRequest(topics=None)
        assert MetadataRequest(topics=None) != MetadataRequest(topics=[])
        assert MetadataRequest(topics=None) != CreateTopicsRequest()

    def test_repr_shows_fields_that_differ_from_defaults(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="flights")])
        assert repr(request) == "MetadataRequest(topics=[MetadataRequestTopic(name='flights')])"

    def test_rejects_annotations_that_are_not_protocol_types(self) -> None:
        @message(versions="0", flexible="none")
        class Odd:
            when: dict[str, str] = FRESH

        with pytest.raises(TypeError, match="when"):
            decode(Odd, 0, b"")


class TestEncoding:
    def test_rejects_a_value_that_the_version_lacks(self) -> None:
        request = FetchRequest(replica_id=3)
        assert encode(request, 14) != encode(FetchRequest(), 14)
        with pytest.raises(UnsupportedField, match="FetchRequest v15 has no replica_id, which is 3"):
            encode(request, 15)

    def test_drops_an_ignorable_value_that_the_version_lacks(self) -> None:
        assert encode(FetchRequest(rack_id="north"), 10) == encode(FetchRequest(), 10)

    @pytest.mark.parametrize(
        "request_",
        [
            CreateTopicsRequest(timeout_ms=1 << 31),
            CreateTopicsRequest(topics=None),  # type: ignore[arg-type]
            CreateTopicsRequest(timeout_ms="soon"),  # type: ignore[arg-type]
            FetchRequest(rack_id="\ud800"),
            FetchRequest(rack_id=None),  # type: ignore[arg-type]
            FetchRequest(rack_id="x" * 32768),
        ],
        ids=["too big", "null", "text", "surrogate", "null string", "long string"],
    )
    def test_rejects_values_out_of_range(self, request_: Any) -> None:
        for version in (4, 7) if isinstance(request_, CreateTopicsRequest) else (11, 12):
            with pytest.raises(UnencodableMessage):
                encode(request_, version)

    def test_rejects_null_if_the_version_does_not_allow_it(self) -> None:
        with pytest.raises(UnencodableMessage):
            encode(MetadataRequest(topics=None), 0)

    def test_rejects_unknown_versions(self) -> None:
        with pytest.raises(UnsupportedVersion, match="FetchRequest has versions 4-18, not 3"):
            encode(FetchRequest(), 3)
        with pytest.raises(UnsupportedVersion, match="not 19"):
            decode(FetchRequest, 19, b"")

    @pytest.mark.parametrize("version", [11, 12])
    def test_keeps_slices_of_files_as_separate_parts_in_order(self, version: int) -> None:
        response = FetchResponse(
            responses=[
                FetchableTopicResponse(
                    partitions=[
                        PartitionData(partition_index=0, aborted_transactions=[], records=Slice(5)),
                        PartitionData(partition_index=1, aborted_transactions=[], records=b"in memory"),
                        PartitionData(partition_index=2, aborted_transactions=[], records=Slice(300)),
                        PartitionData(partition_index=3, aborted_transactions=[], records=Slice(0)),
                    ]
                )
            ]
        )
        parts = encode_parts(response, version)
        assert [type(part) for part in parts] == [bytes, Slice, bytes, Slice, bytes]
        whole = b"".join(part if isinstance(part, bytes) else bytes(len(part)) for part in parts)
        decoded = decode(FetchResponse, version, whole).responses[0].partitions
        assert [bytes(part.records) for part in decoded] == [bytes(5), b"in memory", bytes(300), b""]
        with pytest.raises(UnencodableMessage, match="encode_parts"):
            encode(response, version)


class Slice:
    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes


class TestDecoding:
    def test_records_are_a_writable_view_of_the_frame(self) -> None:
        frame = bytearray(b"\xff\xff\x00\x01\x00\x00\x00\x05\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01")
        frame += b"\x00\x00\x00\x07\x00\x00\x00\x04abcd"
        request = decode(ProduceRequest, 3, frame)
        view = request.topic_data[0].partition_data[0].records
        assert isinstance(view, memoryview)
        view[0] = ord("x")
        assert frame.endswith(b"xbcd")

    @pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
    @pytest.mark.parametrize("text", [b"\xff\xfe", b"\xed\xa0\x80", b"a\xc0\x80b", b"\xe2\x82", b"\xf4\x90\x80\x80"])
    def test_what_is_no_unicode_is_replaced_as_in_java(self, text: bytes, wrap: Any) -> None:
        """Clients of other languages send it, and Kafka answers."""
        (name,) = decode(Names, 0, wrap(b"\x00\x00\x00\x01" + len(text).to_bytes(2, "big") + text)).names
        assert name.encode().decode() == name
        assert "\ufffd" in name

    def test_unknown_tagged_fields_are_skipped(self) -> None:
        data = encode(FetchRequest(max_wait_ms=9), 12)
        assert data[-1:] == b"\x00"
        assert decode(FetchRequest, 12, data[:-1] + b"\x02\x05\x01x\x8f\x4e\x02yz") == FetchRequest(max_wait_ms=9)

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"\xff\xff\xff\xff", "names is null"),
            (b"\x7f\xff\xff\xff", "elements"),
            (b"\x00\x00\x00\x01\x00\x09abc", "9 bytes"),
            (b"\x00\x00\x00\x02\x00\x01a", "left|truncated"),
            (b"\x00\x00\x00\x01\xff\xff", "null"),
            (b"", "truncated"),
        ],
    )
    def test_error_messages(self, data: bytes, why: str) -> None:
        with pytest.raises(MalformedMessage, match=why):
            decode(Names, 0, data)

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"\xff\xff\xff\xff\xff\x01", "32 bits"),
            (b"\xff\xff\xff\xff\x0f", "elements"),
            (b"\x00\x00\x00", "null"),
            (b"\x01\x01\x00\x08\x00\x00\x00\x01\x00\x02\x00\x00", "size of tagged field is wrong"),
            (b"\x01\x01\x00\x05ab", "ends"),
            (b"\x01\x01\x09\x05ab", "ends"),
            (b"\x02\x81\x80\x02" + b"x" * 40000, "32768 bytes"),
        ],
    )
    def test_error_messages_in_flexible_versions(self, data: bytes, why: str) -> None:
        with pytest.raises(MalformedMessage, match=why):
            decode(Names, 1, data)

    def test_a_null_struct_and_a_present_one(self) -> None:
        for cursor in (None, Cursor(topic_name="flights", partition_index=3)):
            request = DescribeTopicPartitionsRequest(cursor=cursor)
            assert decode(DescribeTopicPartitionsRequest, 0, encode(request, 0)).cursor == cursor

    @pytest.mark.parametrize(
        ("place", "data"),
        [(None, b"\x01\x00\x01\x00"), (FRESH, b"\x00"), ((5, 2), b"\x01\x00\x08\x01\x00\x00\x00\x05\x00\x02\x00")],
    )
    def test_a_struct_that_is_tagged_and_null_has_the_marks_that_kafka_writes(self, place: Any, data: bytes) -> None:
        expected = None if place is None else Place() if place is FRESH else Place(shelf=place[0], row=place[1])
        assert encode(Somewhere(place=expected), 0) == data
        assert decode(Somewhere, 0, data) == Somewhere(place=expected)


@message(versions="0-1", flexible="1+")
class Names:
    names: list[string] = []
    place: Place = field(default=FRESH, versions="1+", tag=0)


@message(versions="0", flexible="0+")
class Somewhere:
    place: Place | None = field(default=FRESH, tag=0)


@struct
class Place:
    shelf: int32 = 1
    row: int16 = 2
