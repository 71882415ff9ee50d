"""Our codec against `kio`, an independent codec generated from Kafka's message definitions."""

from __future__ import annotations

import dataclasses
import datetime
import io
import uuid
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.wire_messages import REQUESTS_AND_RESPONSES, every_version, messages, name_of

from minikafka.protocol.apis import api_of
from minikafka.protocol.codec.schema import Field, fields_of
from minikafka.protocol.message import decode, encode

kio_index = pytest.importorskip("kio.index")
kio_serial = pytest.importorskip("kio.serial")

UNKNOWN_TO_KIO = {("ApiVersionsRequest", 5), ("ApiVersionsResponse", 5)}
"""Newer than kio 0.6.5."""


def kio_class(cls: Any, version: int) -> Any:
    load = kio_index.load_request_schema if cls is api_of(cls).request else kio_index.load_response_schema
    return load(api_of(cls).key, version)


def special(field: Field) -> st.SearchStrategy[Any] | None:
    """Values for fields that kio decodes as enum, timedelta or datetime."""
    if field.kind is None or not field.kind.name.startswith("int"):
        return None
    if field.name.endswith("error_code"):
        return st.sampled_from([-1, 0, 3, 41, 100])
    if field.name.endswith(("_ms", "timestamp")):
        return st.integers(0, 2_000_000_000)
    return None


def as_ours(value: Any) -> Any:
    """A value of kio's as a number, string or list."""
    if dataclasses.is_dataclass(value):
        return [as_ours(getattr(value, item.name)) for item in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [as_ours(item) for item in value]
    if isinstance(value, datetime.timedelta):
        return value // datetime.timedelta(milliseconds=1)
    if isinstance(value, datetime.datetime):
        return (value - datetime.datetime.fromtimestamp(0, datetime.UTC)) // datetime.timedelta(milliseconds=1)
    if isinstance(value, uuid.UUID):
        return value.bytes
    return value


def plain(value: Any, version: int) -> Any:
    """A message of ours as nested lists, in field order."""
    if isinstance(value, list):
        return [plain(item, version) for item in value]
    if hasattr(value, "__declaration__"):
        present = [field for field in fields_of(type(value)) if version in field.versions]
        return [plain(getattr(value, field.name), version) for field in present]
    return value


def without_nil(value: Any) -> Any:
    """kio decodes the null uuid as None."""
    if isinstance(value, list):
        return [without_nil(item) for item in value]
    return None if value == bytes(16) else value


@pytest.mark.slow
@pytest.mark.parametrize(("cls", "version"), every_version(REQUESTS_AND_RESPONSES), ids=name_of)
def test_kio_reads_and_writes_the_same(cls: Any, version: int) -> None:
    if (cls.__name__, version) in UNKNOWN_TO_KIO:
        pytest.skip("kio does not know this version")
    theirs = kio_class(cls, version)
    read, write = kio_serial.entity_reader(theirs), kio_serial.entity_writer(theirs)

    @settings(
        max_examples=5, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(messages(cls, version, special))
    def check(original: Any) -> None:
        data = encode(original, version)
        entity, end = read(data, 0)
        assert end == len(data)
        assert without_nil(as_ours(entity)) == without_nil(plain(original, version))
        written = io.BytesIO()
        write(written, entity)
        assert decode(cls, version, written.getvalue()) == original

    check()
