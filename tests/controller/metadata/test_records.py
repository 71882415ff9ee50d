"""The encoding of metadata records and snapshots."""

from dataclasses import fields, is_dataclass, replace
from typing import Any, get_args, get_type_hints

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.controller.metadata import records
from minikafka.controller.metadata.records import (
    BrokerChange,
    BrokerRecord,
    ClusterRecord,
    ConfigRecord,
    FeatureRecord,
    PartitionChange,
    PartitionRecord,
    Record,
    UnreadableRecord,
    decode_record,
    encode_record,
)
from minikafka.controller.metadata.snapshot_encoding import decode_snapshot, encode_snapshot

KINDS = get_args(Record)
VALUES = {
    int: st.integers(-(2**63), 2**63 - 1),
    float: st.floats(allow_nan=False),
    str: st.text(),
    bytes: st.binary(max_size=16),
    bool: st.booleans(),
    type(None): st.none(),
}


def of_type(kind: Any) -> st.SearchStrategy[Any]:
    """Values of an annotated type."""
    if kind in VALUES:
        return VALUES[kind]
    arguments = get_args(kind)
    if arguments and arguments[-1] is Ellipsis:
        return st.lists(of_type(arguments[0]), max_size=4).map(tuple)
    if getattr(kind, "__origin__", None) is tuple:
        return st.tuples(*map(of_type, arguments))
    return st.one_of(*map(of_type, arguments))


def a_record(kind: type) -> st.SearchStrategy[Record]:
    hints = get_type_hints(kind)
    return st.builds(kind, **{field.name: of_type(hints[field.name]) for field in fields(kind)})


RECORDS = st.one_of(*map(a_record, KINDS))


@given(RECORDS)
def test_every_record_reads_back_as_itself(record: Record) -> None:
    again = decode_record(encode_record(record))
    assert (again, type(again)) == (record, type(record))


def test_every_record_class_has_a_kind() -> None:
    named = [getattr(records, name) for name in records.__all__]
    assert {one for one in named if isinstance(one, type) and is_dataclass(one)} == set(KINDS)


FEATURE = {"kind": "feature", "version": 0, "name": "x", "level": 1}
UNREADABLE: dict[str, tuple[bytes, str]] = {
    "an unknown kind": (msgpack.packb({**FEATURE, "kind": "spaceship"}), "unknown kind 'spaceship'"),
    "no kind": (msgpack.packb({"version": 0}), "unknown kind None"),
    "a newer version": (msgpack.packb({**FEATURE, "version": 1}), "has version 1, this minikafka reads 0"),
    "no version": (msgpack.packb({"kind": "feature", "name": "x", "level": 1}), "has version None"),
    "a missing field": (msgpack.packb({"kind": "feature", "version": 0, "name": "x"}), "has the fields"),
    "a field too many": (msgpack.packb({**FEATURE, "colour": "red"}), "has the fields"),
    "no map": (msgpack.packb([1, 2]), "is not a map"),
    "a record of Apache Kafka": (bytes.fromhex("010c00106d657461646174612e76657273696f6e001e00"), "is not msgpack"),
    "a torn record": (msgpack.packb(FEATURE)[:-1], "is not msgpack"),
    "nothing": (b"", "is not msgpack"),
    "a key that is no text": (msgpack.packb({1: 2}), "is not msgpack"),
}


@pytest.mark.parametrize(("data", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_unreadable_records(data: bytes, words: str) -> None:
    with pytest.raises(UnreadableRecord, match=words):
        decode_record(data)


def test_older_versions_get_the_defaults_of_newer_fields() -> None:
    broker = {"node_id": 1, "epoch": 7, "incarnation_id": bytes(16), "endpoints": [], "rack": None, "fenced": False}
    read = decode_record(msgpack.packb({"kind": "broker", "version": 0, **broker}))
    assert read == BrokerRecord(1, 7, bytes(16), (), None, fenced=False, in_controlled_shutdown=False)
    change = {"topic_id": bytes(16), "partition": 3, "isr": [1], "leader": None, "replicas": None}
    plain = {"kind": "partition-changed", "version": 0, **change, "adding_replicas": None, "removing_replicas": None}
    assert decode_record(msgpack.packb(plain)) == PartitionChange(bytes(16), 3, isr=(1,))
    plain = {"kind": "cluster", "version": 0, "cluster_id": "c"}
    assert decode_record(msgpack.packb(plain)) == ClusterRecord("c", -1)


BROKER = BrokerRecord(1, 7, bytes(16), (), None, fenced=False)
PARTITION = PartitionRecord(bytes(16), 0, (1,), (1,), 1)


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (ClusterRecord("c"), 0),
        (ClusterRecord("c", 3), 1),
        (BROKER, 0),
        (replace(BROKER, in_controlled_shutdown=True), 1),
        (replace(BROKER, log_dirs=(bytes(16),)), 2),
        (replace(BROKER, cordoned=(bytes(16),)), 3),
        (BrokerChange(1, 7, fenced=True), 0),
        (BrokerChange(1, 7, in_controlled_shutdown=False), 1),
        (BrokerChange(1, 7, cordoned=()), 3),
        (PARTITION, 0),
        (replace(PARTITION, last_known_elr=(1,)), 1),
        (replace(PARTITION, directories=(bytes(16),)), 2),
        (PartitionChange(bytes(16), 0, isr=(1,)), 0),
        (PartitionChange(bytes(16), 0, elr=()), 1),
        (PartitionChange(bytes(16), 0, directories=()), 2),
    ],
)
def test_a_record_has_the_lowest_version_that_says_what_it_says(record: Record, version: int) -> None:
    """So that nodes which do not know the newer fields read it, as long as nobody uses these."""
    plain = msgpack.unpackb(encode_record(record))
    assert plain["version"] == version
    added = {one.name: one.metadata.get("since", 0) for one in fields(record)}
    assert plain.keys() - {"kind", "version"} == {name for name, since in added.items() if since <= version}
    assert decode_record(encode_record(record)) == record


def test_an_older_version_with_a_field_of_a_newer_one_is_refused() -> None:
    with pytest.raises(UnreadableRecord, match="has the fields"):
        decode_record(msgpack.packb({"kind": "cluster", "version": 0, "cluster_id": "c", "last_broker_epoch": 1}))
    with pytest.raises(UnreadableRecord, match="has the fields"):
        decode_record(msgpack.packb({"kind": "cluster", "version": 1, "cluster_id": "c"}))


@given(st.binary(max_size=64))
def test_any_bytes_are_a_record_or_refused(data: bytes) -> None:
    try:
        assert encode_record(decode_record(data))
    except UnreadableRecord:
        pass


@given(st.lists(RECORDS, max_size=5))
def test_a_snapshot_reads_back(written: list[Record]) -> None:
    assert decode_snapshot(encode_snapshot(written)) == written


def test_a_snapshot_with_any_damaged_byte_is_refused() -> None:
    data = encode_snapshot([FeatureRecord("a", 1), ConfigRecord(2, "t", "a", None)])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1
        with pytest.raises(UnreadableRecord):
            decode_snapshot(bytes(damaged))
        with pytest.raises(UnreadableRecord):
            decode_snapshot(data[:position])


def test_a_snapshot_of_another_format_is_refused() -> None:
    data = encode_snapshot([]).replace(b"snapshot 0", b"snapshot 2")
    with pytest.raises(UnreadableRecord, match="unknown format"):
        decode_snapshot(data)


def test_an_empty_snapshot_is_called_so() -> None:
    with pytest.raises(UnreadableRecord, match="metadata snapshot is an empty file"):
        decode_snapshot(b"")


def test_records_are_values() -> None:
    record = FeatureRecord("a", 1)
    assert replace(record, level=2) == FeatureRecord("a", 2)
    with pytest.raises(AttributeError):
        record.level = 3  # type: ignore[misc]
