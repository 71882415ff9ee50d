"""What can be wrong with a message: the peer's bytes (`MalformedMessage`), or what we tried to send."""

from __future__ import annotations


class MalformedMessage(ValueError):
    """Bytes from a peer that are no message: cut short, a length that lies, null where none may be, bad UTF-8."""


class UnsupportedVersion(MalformedMessage):
    """A version that the message does not have."""


class UnencodableMessage(ValueError):
    """A message of ours that cannot be sent: a value outside its type, or null where none may be."""


class UnsupportedField(UnencodableMessage):
    """A field has a value that the version cannot carry and that must not be dropped silently."""
