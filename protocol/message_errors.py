"""The exceptions of the codec: for invalid bytes from a peer (`MalformedMessage`) and for unencodable messages."""

from __future__ import annotations


class MalformedMessage(ValueError):
    """Bytes from a peer that are not a valid message: truncated, inconsistent lengths, invalid null."""


class UnsupportedVersion(MalformedMessage):
    """The message has no such version."""


class UnencodableMessage(ValueError):
    """A message that cannot be encoded: a value out of the range of its type, or an invalid null."""


class UnsupportedField(UnencodableMessage):
    """A field that the version lacks is not at its default, and is not ignorable."""


class ManyElements(Exception):
    """A message has more elements in its arrays, or tagged fields, than the caller of `message.decode` allows."""
