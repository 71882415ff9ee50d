"""Tests of the conversation player: its format, malformed batches, and the differences that it reports."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from support.batches import encode_batch
from support.conversation import Answer, Closed, HangUp, NotAStepError, RawBytes, Request, Silence, Wait, read
from support.conversation_batches import decode_batches, encode_batches
from support.conversation_names import NOW, TIME_OF_RUN, Names
from support.conversation_values import comparable, in_one_order, to_message

from minikafka.protocol.messages.fetch import FetchResponse
from minikafka.protocol.messages.join_group import JoinGroupResponse
from minikafka.protocol.records.batch import batches
from minikafka.protocol.records.record import CorruptRecords, Record

EVERY_STEP = """\
# a title
set num.partitions=3
retry a> Metadata v9 {"topics": [],
  "allow_auto_topic_creation": false}
a< {"brokers": []}
a* ApiVersions v0 0001 02ff
a* ff
a< closed
b< silence 30
b close
wait 5
"""


def test_every_kind_of_step(tmp_path: Path) -> None:
    path = tmp_path / "steps.txt"
    path.write_text(EVERY_STEP)
    conversation = read(path)
    assert (conversation.title, conversation.settings) == ("a title", {"num.partitions": "3"})
    assert conversation.steps == [
        (3, Request("a", "Metadata", 9, {"topics": [], "allow_auto_topic_creation": False}, retried=True)),
        (5, Answer("a", {"brokers": []})),
        (6, RawBytes("a", b"\x00\x01\x02\xff", "ApiVersions", 0)),
        (7, RawBytes("a", b"\xff", None, 0)),
        (8, Closed("a")),
        (9, Silence("b", 30)),
        (10, HangUp("b")),
        (11, Wait(5)),
    ]


def test_connections_to_several_nodes(tmp_path: Path) -> None:
    path = tmp_path / "steps.txt"
    path.write_text("# three\nnodes 3\nretry b@2> Metadata v9 {}\nb@2< {}\nc@coordinator close\n")
    conversation = read(path)
    assert conversation.nodes == 3
    assert [step for _, step in conversation.steps] == [
        Request("b@2", "Metadata", 9, {}, retried=True),
        Answer("b@2", {}),
        HangUp("c@coordinator"),
    ]


def test_names_of_the_coordinator_and_the_controller_among_several_nodes() -> None:
    names = Names("run7-", several_nodes=True)
    with pytest.raises(ValueError, match="no FindCoordinator"):
        _ = names.coordinator
    names.inward({"coordinators": [{"key": "g", "node_id": -1}]})
    answer = names.inward({"controller_id": 3, "coordinators": [{"node_id": 2}, {"node_id": 1}]})
    assert answer == {"controller_id": "*", "coordinators": [{"node_id": "$coordinator"}, {"node_id": 1}]}
    assert names.coordinator == 2
    assert Names("run7-").inward({"controller_id": 3}) == {"controller_id": 3}


def test_an_invalid_step_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text("# title\nwait 5\na> Metadata\n")
    with pytest.raises(NotAStepError, match=r"bad\.txt:3: not a step: a> Metadata"):
        read(path)


def test_names_are_replaced_in_requests_and_responses() -> None:
    names = Names("run7-")
    assert names.outward({"name": "~t", "timestamp": NOW}) == {"name": "run7-t", "timestamp": TIME_OF_RUN}
    answer = {"name": "run7-t", "topic_id": "an id", "error_code": 3, "members": [{"member_id": "m"}], "leader": "m"}
    assert names.inward(answer) == {
        "name": "~t",
        "topic_id": "$topic_id.1",
        "error_code": "UNKNOWN_TOPIC_OR_PARTITION",
        "members": [{"member_id": "$member_id.1"}],
        "leader": "$member_id.1",
    }
    assert names.outward(["$topic_id.1", "$member_id.1"]) == ["an id", "m"]
    with pytest.raises(ValueError, match="never bound"):
        names.outward("$topic_id.2")


def test_a_retried_response_binds_no_variables() -> None:
    names = Names("r-")
    mark = names.mark()
    assert names.inward({"topic_id": "first"}) == {"topic_id": "$topic_id.1"}
    names.reset(mark)
    assert names.inward({"topic_id": "second"}) == {"topic_id": "$topic_id.1"}


def test_the_projects_codec_reads_what_the_player_writes() -> None:
    records = [{"value": "a", "timestamp": 5}, {"key": "k", "timestamp": 7, "headers": {"h": "v"}}]
    (batch,) = batches(encode_batches(records))
    batch.check_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch.records()] == [
        (0, 5, None, b"a", []),
        (1, 7, b"k", None, [("h", b"v")]),
    ]


def test_the_player_reads_what_the_projects_codec_writes() -> None:
    records = [Record(0, 5, b"k", b"\xff", [("h", b"1"), ("h", None)]), Record(1, 9, None, b"", [])]
    data = encode_batch(records, producer_id=4, producer_epoch=1, base_sequence=2, leader_epoch=0)
    assert decode_batches(data + data[:20]) == [
        {
            **{"base_offset": 0, "producer_id": 4, "producer_epoch": 1, "base_sequence": 2},
            "records": [
                {"timestamp": 5, "key": "k", "value": "base64:/w==", "headers": [["h", "1"], ["h", None]]},
                {"timestamp": 9, "value": ""},
            ],
        },
        "partial",
    ]


def test_batches_can_be_malformed() -> None:
    honest = encode_batches(["a"])
    assert encode_batches({"records": ["a"], "cut": 3}) == honest[:-3]
    (corrupt,) = batches(encode_batches({"records": ["a"], "corrupt_crc": True}))
    with pytest.raises(CorruptRecords):
        corrupt.check_crc()
    assert next(batches(encode_batches({"records": ["a"], "count": 9}))).record_count == 9
    packed = encode_batches({"records": ["a"], "codec": "gzip"})
    assert gzip.decompress(packed[61:]) == honest[61:]


def test_defaults_and_messages_are_left_out_and_arrays_are_sorted() -> None:
    members = [{"member_id": "b", "metadata": "2"}, {"member_id": "a", "metadata": "3"}, {"metadata": "1"}]
    message = to_message(JoinGroupResponse, 9, {"generation_id": 4, "protocol_name": None, "members": members})
    shown = comparable(JoinGroupResponse, 9, message)
    assert shown == {
        "generation_id": 4,
        "protocol_name": None,
        "members": [{"metadata": "1"}, {"member_id": "b", "metadata": "2"}, {"member_id": "a", "metadata": "3"}],
    }


def test_the_order_of_arrays_is_ignored_but_not_that_of_records() -> None:
    one, other = {"topic_id": "$topic_id.1"}, {"topic_id": "11111111-1111-1111-1111-111111111111"}
    assert in_one_order({"topics": [one, other]}) == in_one_order({"topics": [other, one]})
    batches_ = [{"base_offset": 0}, {"base_offset": 1}]
    assert in_one_order({"records": batches_}) != in_one_order({"records": batches_[::-1]})


def test_a_field_that_the_version_does_not_have_is_rejected() -> None:
    with pytest.raises(ValueError, match="FetchResponse v4 has no session_id"):
        to_message(FetchResponse, 4, {"session_id": 1})
