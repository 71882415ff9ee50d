"""Validates topic names, names partitions (`TopicPartition`), and converts uuids to text and back."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from minikafka.protocol.errors import InvalidTopicError
from minikafka.protocol.shortened import shortened

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Kafka's ``Topic.INTERNAL_TOPICS``."""

_NAME_LENGTH_MAX = 249
_ID = re.compile(r"[a-zA-Z0-9_-]{22}")
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """A partition of a topic; as text ``topic-7``, which is also the name of its directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

    def said_of(self, message: str) -> str:
        """The message with the partition in front of it, unless it begins with it already, as some errors do."""
        return message if message.startswith(f"{self} ") else f"{self}: {message}"


def check_topic_name(name: str) -> None:
    """Validate a topic name, with the error messages of Kafka's ``Topic.validate``.

    Raises:
        InvalidTopicError: empty, ``.``, ``..``, longer than 249 characters, or with a character that is not
            an ASCII letter or digit, ``.``, ``_`` or ``-``.
    """
    fault = _fault_of_name(name)
    if fault:
        raise InvalidTopicError(f"Topic name is invalid: {fault}")


def _fault_of_name(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _NAME_LENGTH_MAX:
        return f"the length of '{name}' is longer than the max allowed length {_NAME_LENGTH_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def uuid_text(identifier: bytes) -> str:
    """Convert a uuid of 16 raw bytes to Kafka's notation: URL-safe base64, 22 characters, no padding."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """Convert Kafka's notation of a uuid to its 16 bytes: the inverse of `uuid_text`.

    Raises:
        ValueError: the text is not the notation of 16 bytes.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"{shortened(repr(text))} is not a uuid: expected 22 characters of URL-safe base64")
    return base64.urlsafe_b64decode(text + "==")
