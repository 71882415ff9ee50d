"""Names of topics and partitions, and how Kafka writes ids as text."""

from __future__ import annotations

import base64
import re
from typing import NamedTuple

from minikafka.protocol.errors import InvalidTopicError

INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state", "__share_group_state")
"""Topics that belong to the cluster itself (Kafka's ``Topic.INTERNAL_TOPICS``)."""

_NAME_LENGTH_MAX = 249
_ID = re.compile(r"[a-zA-Z0-9_-]{22}")
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """One partition of one topic; as text ``topic-7``, which is also its folder's name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def check_topic_name(name: str) -> None:
    """Refuse a name that no topic may have, in the words of Kafka's ``Topic.validate``.

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
    """16 raw bytes as Kafka prints them: base64 for URLs, 22 characters, no padding."""
    return base64.urlsafe_b64encode(identifier).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    """The inverse of `uuid_text`.

    Raises:
        ValueError: if the text does not stand for 16 bytes.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is no id: those are 22 characters of base64 for URLs")
    return base64.urlsafe_b64decode(text + "==")
