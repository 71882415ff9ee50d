"""Every string of every API with texts that no sensible client sends, and what a node answers.

A request is filled by its declaration: one element in each array, a plausible value in each field. Then one string
after the other is replaced by each of `TEXTS`. The answers of Apache Kafka are recorded: a line for each string, with
the error codes in the response, or `closed`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from minikafka.protocol.codec.schema import default_of
from minikafka.protocol.message import fields_of
from support.conversation_values import API_BY_NAME
from support.hostile_settings import SURROGATE, TEXT_SIZE_MAX

FILE = Path(__file__).parents[1] / "conversations" / "kafkas_answers_to_strings.txt"
TEXTS: dict[str, str | None] = {
    "null": None,
    "empty": "",
    "blank": " ",
    "NUL": "a\0b",
    "escape": "\x1b[31m",
    "surrogate": SURROGATE,
    "emoji": "\U0001f600",
    "dots": "..",
    "slashes": "../../x",
    "number": "0x1p99999",
    "digits of Arabic": "١٢",
    "parentheses": "(" * 3_000,
    "repetition": "a{99999999999}",
    "letters": "x" * 32_760,
    "full": "\u20ac" * (TEXT_SIZE_MAX // 3) + "y",
}
VALUES: dict[str, Any] = {
    "timeout_ms": 1_000,
    "transaction_timeout_ms": 1_000,
    "session_timeout_ms": 1_800_000,
    "rebalance_timeout_ms": 500,
    "num_partitions": 1,
    "replication_factor": 1,
    "count": 1,
    "acks": 1,
    "max_bytes": 1_000,
    "producer_id": -1,
    "producer_epoch": -1,
    "member_epoch": -1,
    "replica_id": -1,
    "generation_id_or_member_epoch": -1,
    "generation_id": -1,
    "resource_type": 2,
    "validate_only": True,
    "mechanism": 1,
    "iterations": 4096,
    "salt": b"s",
    "salted_password": b"p",
    "resource_types": 2,
    "broker_ids": 1,
    "topic_id": "00000000-0000-0000-0000-0000000000ff",
    "subscription_id": 1,
    "resource_type_filter": 2,
    "pattern_type_filter": 3,
    "resource_pattern_type": 3,
    "operation": 3,
    "permission_type": 3,
    "response_partition_limit": 1,
}
PLAIN = "x"
Asked = tuple[str, int, dict[str, Any]]


def filled(cls: Any, version: int) -> dict[str, Any]:
    """A plausible body."""
    body: dict[str, Any] = {}
    for field in fields_of(cls):
        if version not in field.versions or field.tag is not None:
            continue
        kind = field.kind.name if field.kind else ""
        if field.struct is not None:
            value: Any = filled(field.struct, version)
        elif kind == "string":
            value = PLAIN
        elif kind == "records":
            value = None
        else:
            value = VALUES.get(field.name, default_of(field))
            value = value.decode() if isinstance(value, bytes) else value
            value = None if kind == "uuid" and field.name != "topic_id" else value
        if field.is_array and value is not None and not isinstance(value, list):
            value = [value]
        if value is not None or (version in field.nullable):
            body[field.name] = value
    return body


def strings_of(cls: Any, version: int, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The path of each string, and whether it may be null."""
    for field in fields_of(cls):
        if version not in field.versions or field.tag is not None:
            continue
        if field.struct is not None:
            yield from strings_of(field.struct, version, (*path, field.name))
        elif field.kind is not None and field.kind.name == "string":
            yield (*path, field.name), version in field.nullable and not field.is_array


def with_text(body: Mapping[str, Any], path: tuple[str, ...], text: str | None) -> dict[str, Any]:
    """The body with another text in one place."""
    name, *rest = path
    value = body[name]
    inner = value[0] if isinstance(value, list) else value
    changed = with_text(inner, tuple(rest), text) if rest else text
    return {**body, name: [changed] if isinstance(value, list) else changed}


def asking(api: str, version: int) -> Generator[Asked, Any, dict[str, list[str]]]:
    """Yields requests and is sent their responses, None for a closed connection; returns the answers by string."""
    request = API_BY_NAME[api].request
    body, answers = filled(request, version), dict[str, list[str]]()
    for path, nullable in strings_of(request, version):
        found = []
        for text in TEXTS.values():
            if text is None and not nullable:
                found.append("-")
                continue
            response = yield api, version, with_text(body, path, text)
            found.append("closed" if response is None else codes_in(response))
        answers[f"{api} {version} {'.'.join(path)}"] = found
    return answers


def recorded() -> dict[str, list[str]]:
    """Kafka's answers by string."""
    lines = [line for line in FILE.read_text().splitlines() if not line.startswith("#")]
    return {name: answers.split() for name, answers in (line.split("\t") for line in lines)}


def rendered(answers: Mapping[str, list[str]]) -> str:
    """The text of the file."""
    title = "# Apache Kafka 4.3.1: the error codes for each of `TEXTS` (`support/hostile_strings.py`); `-` is not asked"
    return "\n".join([title, *(f"{name}\t{' '.join(found)}" for name, found in answers.items()), ""])


def codes_in(response: Any) -> str:
    """The error codes in a response, without those of success."""
    return "+".join(map(str, sorted(set(_codes(response))))) or "0"


def _codes(message: Any) -> Iterable[int]:
    for field in fields_of(type(message)):
        value = getattr(message, field.name)
        if field.name.endswith("error_code") and value:
            yield value
        for one in value if isinstance(value, list) else [value]:
            if hasattr(one, "__declaration__"):
                yield from _codes(one)
