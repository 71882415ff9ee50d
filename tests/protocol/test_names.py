"""Validation of topic names, and uuids as text."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import InvalidTopicError
from minikafka.protocol.names import TopicPartition, check_topic_name, uuid_from_text, uuid_text


@pytest.mark.parametrize("name", ["a", "flights", "a.b_c-D9", "...", "x" * 249, "__consumer_offsets"])
def test_valid_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        ("a b", "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("a\n", "'a\n' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
    ],
)
def test_invalid_names_have_kafkas_error_message(name: str, why: str) -> None:
    with pytest.raises(InvalidTopicError) as error:
        check_topic_name(name)
    assert error.value.message == f"Topic name is invalid: {why}"


def test_a_partition_as_text_is_its_directory_name() -> None:
    assert str(TopicPartition("flights", 7)) == "flights-7"
    assert sorted([TopicPartition("b", 0), TopicPartition("a", 2)])[0].topic == "a"


def test_a_message_names_its_partition_once() -> None:
    partition = TopicPartition("t", 1)
    assert partition.said_of("disk full") == "t-1: disk full"
    assert partition.said_of("t-1 cannot be written") == "t-1 cannot be written"
    assert partition.said_of("t-10 cannot be written") == "t-1: t-10 cannot be written"


def test_uuids_as_text() -> None:
    for identifier in (bytes(16), bytes(range(16)), b"\xff" * 16, b"\xfb" * 16):
        text = uuid_text(identifier)
        assert len(text) == 22
        assert uuid_from_text(text) == identifier
    assert uuid_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_text(b"\xfb\xff" * 8) == "-__7__v_-__7__v_-__7_w"


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "+" * 22, "é" * 22, "A" * 20 + "=="])
def test_text_that_is_not_a_uuid(text: str) -> None:
    with pytest.raises(ValueError, match="id"):
        uuid_from_text(text)
