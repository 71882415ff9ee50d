"""Errors as codes and as exceptions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.protocol import errors
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import (
    KafkaError,
    NotLeaderOrFollowerError,
    RecordListTooLargeError,
    UnknownServerError,
    error_for,
)
from minikafka.protocol.shortened import LENGTH_MAX


@pytest.mark.parametrize("code", [code for code in ErrorCode if code])
def test_every_code_has_an_exception_named_after_it(code: ErrorCode) -> None:
    error = error_for(code.value)
    words = code.name.removesuffix("_EXCEPTION").removesuffix("_ERROR").split("_")
    assert type(error).__name__ == "".join(map(str.capitalize, words)) + "Error"
    assert getattr(errors, type(error).__name__) is type(error)
    assert error.code is code
    assert error.retriable == code.retriable
    assert str(error) == error.message == code.text


def test_a_message_replaces_the_name_of_the_code() -> None:
    error = error_for(6, "partition flights-3 moved to node 2")
    assert isinstance(error, NotLeaderOrFollowerError)
    assert str(error) == "partition flights-3 moved to node 2"
    assert error.retriable
    assert not RecordListTooLargeError().retriable


def test_an_unknown_code_is_named_in_the_message() -> None:
    error = error_for(4711)
    assert type(error) is UnknownServerError
    assert "4711" in str(error)
    assert error_for(-1).code == -1


def test_code_0_is_not_an_error() -> None:
    with pytest.raises(ValueError, match="success"):
        error_for(0)
    assert KafkaError("odd").code is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.slow
@given(st.text(st.characters(exclude_categories=())), st.integers(0, 40_000), st.text())
def test_every_message_can_be_encoded(head: str, count: int, tail: str) -> None:
    """Whatever input it quotes. What is wrong stands before or after the quotation."""
    error = error_for(40, f"before {head}{count * 'x'}{tail} after")
    assert len(error.message) <= LENGTH_MAX
    assert len(error.message.encode()) < 1 << 15
    assert error.message.startswith("before ")
    assert error.message.endswith(" after")
    assert error.detail == error.message == str(error)
