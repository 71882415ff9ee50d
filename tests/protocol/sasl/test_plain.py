"""SASL PLAIN, with the error messages that Kafka sent."""

from __future__ import annotations

import pytest

from minikafka.protocol.errors import SaslAuthenticationFailedError
from minikafka.protocol.sasl.message_sizes import MESSAGE_BYTES_MAX
from minikafka.protocol.sasl.plain import PlainMessage, parse_plain, plain_message
from minikafka.protocol.sasl.sasl_errors import SaslError


def test_a_message_is_read_as_it_was_written() -> None:
    assert parse_plain(plain_message("jürgen", "päss,=word")) == PlainMessage("", "jürgen", "päss,=word")
    assert parse_plain(b"bob\0alice\0secret") == PlainMessage("bob", "alice", "secret")
    assert "secret" not in repr(parse_plain(b"bob\0alice\0secret"))


def test_nul_cannot_be_sent() -> None:
    for user, password in (("a\0b", "c"), ("a", "b\0c")):
        with pytest.raises(SaslError, match="NUL"):
            plain_message(user, password)


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0a\0b\0c", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0a\0b\0c\0d", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"\xff\xfe", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
    ],
)
def test_malformed_messages_get_kafkas_answers(message: bytes, answer: str) -> None:
    with pytest.raises(SaslAuthenticationFailedError) as error:
        parse_plain(message)
    assert error.value.message == answer


def test_a_message_that_is_too_large_is_refused() -> None:
    assert parse_plain(b"\0alice\0".ljust(MESSAGE_BYTES_MAX, b"x")).username == "alice"
    with pytest.raises(SaslError, match="the PLAIN message has 16385 bytes; allowed: at most 16384"):
        parse_plain(b"\0alice\0".ljust(MESSAGE_BYTES_MAX + 1, b"x"))
