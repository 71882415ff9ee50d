"""Every declared field of every message equals Kafka 4.3's schemas."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from support.kafka_tables import FOLDER, TableField, TableMessage, read_table
from support.wire_messages import ALL, RECORDS, REQUESTS_AND_RESPONSES, name_of

from minikafka.protocol.apis import APIS
from minikafka.protocol.codec.schema import IMPLIED, NEVER, Field, declaration_of, fields_of, versions_of
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.types import NIL_UUID

pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="no ../shared/kafka-protocol beside the checkout")


@cache
def tables() -> dict[str, TableMessage]:
    return read_table(FOLDER / "requests.txt") | read_table(FOLDER / "records.txt")


@pytest.mark.parametrize("cls", ALL, ids=name_of)
def test_a_message_is_declared_as_kafka_declares_it(cls: Any) -> None:
    ours, table = declaration_of(cls), tables()[cls.__name__]
    assert ours.name == table.name
    assert ours.key == table.key
    assert ours.versions == versions_of(table.versions)
    assert ours.flexible == versions_of(table.flexible)
    compare_fields(cls, table.fields, path=table.name)


def compare_fields(cls: Any, expected: list[TableField], path: str) -> None:
    ours = fields_of(cls)
    assert [field.name for field in ours] == [field.name for field in expected], path
    for field, fact in zip(ours, expected, strict=True):
        compare_field(field, fact, f"{path}.{fact.name}")


def compare_field(field: Field, fact: TableField, path: str) -> None:
    assert plain(field.type_name) == plain(fact.type_name), path
    assert field.versions == versions_of(fact.versions), path
    assert field.nullable == (versions_of(fact.nullable) if fact.nullable != "none" else NEVER), path
    assert field.tag == fact.tag, path
    assert field.ignorable == fact.ignorable, path
    assert field.never_flexible == fact.never_flexible, path
    assert field.default == expected_default(fact), path
    if field.struct is not None:
        compare_fields(field.struct, fact.fields, path)


def plain(type_name: str) -> str:
    """The name without the prefix of structs whose name is not unique in their module."""
    return re.sub(r"^\[\](Request|Response|Subscription|Assignment)(?=[A-Z])", "[]", type_name)


def expected_default(fact: TableField) -> Any:
    if fact.default == "null":
        return None
    if fact.type_name.startswith("[]") or fact.fields:
        return IMPLIED
    match fact.type_name:
        case "bool":
            return fact.default == "true"
        case "string":
            return fact.default or ""
        case "bytes":
            return b""
        case "records":
            return None
        case "uuid":
            return NIL_UUID
        case "float64":
            return float(fact.default or 0)
        case _:
            return int(fact.default or "0", 0)


def test_the_comparison_sees_thousands_of_fields() -> None:
    def count(cls: Any) -> int:
        return sum(1 + (count(field.struct) if field.struct else 0) for field in fields_of(cls))

    assert len(REQUESTS_AND_RESPONSES) >= 118
    assert len(RECORDS) >= 9
    assert sum(map(count, ALL)) > 900


def test_every_api_pairs_its_own_messages() -> None:
    for key, api in APIS.items():
        assert api.key == key
        assert declaration_of(api.response).name == api.name + "Response"
        assert declaration_of(api.response).key == key
        assert declaration_of(api.response).versions == api.versions
        assert declaration_of(api.response).flexible == api.flexible


def test_error_codes_are_those_of_the_table() -> None:
    facts = [line.split() for line in (FOLDER / "errors.txt").read_text().splitlines() if line.strip()]
    assert {int(code): name.upper() for code, name, *_ in facts} == {code.value: code.name for code in ErrorCode}
    assert {int(fact[0]) for fact in facts if "retriable" in fact} == {code for code in ErrorCode if code.retriable}
