"""`SeenRequests`: the requests that clients have sent to the nodes, as plain values that JSON can carry."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from minikafka.protocol.records.batch import CorruptRecords, batches
from minikafka.testing.faults.named_things import fields_in
from minikafka.testing.request import Request

__all__ = ["REQUESTS_MAX", "SeenRequests", "plain"]

REQUESTS_MAX = 10_000
"""Requests that are kept; the oldest ones are forgotten."""
_TEXT_MAX, _ELEMENTS_MAX = 1024, 200
"""The most letters of a text, and elements of an array, that are kept."""


class SeenRequests:
    """Keeps the last `REQUESTS_MAX` requests. Several threads use it."""

    def __init__(self) -> None:
        self._seen: deque[Request] = deque(maxlen=REQUESTS_MAX)
        self._lock = threading.Lock()
        self._count = 0

    def add(self, seen: Request) -> None:
        """Keep a request, with the next number."""
        with self._lock:
            self._count += 1
            self._seen.append(seen._replace(number=self._count))

    def clear(self) -> None:
        """Forget all requests."""
        with self._lock:
            self._seen.clear()
            self._count = 0

    def of(self, api: str | None = None, client_id: str | None = None) -> list[Request]:
        """The requests of an API, of a client, or all, oldest first."""
        with self._lock:
            seen = list(self._seen)
        return [one for one in seen if api in (None, one.api) and client_id in (None, one.client_id)]


def plain(message: Any, version: int) -> dict[str, Any]:
    """The fields that a message has in a version, as values that JSON can carry."""
    return {
        declared.name: _batches(value) if declared.name == "records" else _plain(value, version)
        for declared in fields_in(message)
        if version in declared.versions
        for value in [getattr(message, declared.name)]
    }


def _plain(value: Any, version: int) -> Any:
    if isinstance(value, list):
        return [_plain(one, version) for one in value[:_ELEMENTS_MAX]]
    if isinstance(value, bytes | bytearray | memoryview):
        return _text(bytes(value[:_TEXT_MAX]))
    if isinstance(value, str):
        return value[:_TEXT_MAX]
    if value is None or isinstance(value, bool | int | float):
        return value
    return plain(value, version)


def _text(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data.hex()
    return text if text.isprintable() else data.hex()


def _batches(records: Any) -> list[dict[str, Any]]:
    """What the headers of record batches say; nothing of bytes that are none."""
    if records is None:
        return []
    found = []
    try:
        for batch in batches(memoryview(records)):
            found.append(
                {
                    "size_bytes": batch.size_bytes,
                    "record_count": batch.record_count,
                    "producer_id": batch.producer_id,
                    "producer_epoch": batch.producer_epoch,
                    "base_sequence": batch.base_sequence,
                    "is_transactional": batch.is_transactional,
                }
            )
    except CorruptRecords:
        pass
    return found
