"""A malformed file of JSON is a sentence, whatever is wrong in it and whichever command reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from minikafka.cli.arguments import contexts, json_files
from minikafka.cli.commands import delete_records, offset_reset, reassign

DEEP = 100_000
ENTRY = '{"partitions": [{"topic": "t", "partition": %s, "offset": %s, "replicas": [%s]}]}'
READERS: dict[str, Callable[[Path], Any]] = {
    "reassign": reassign.read_plan,
    "delete-records": delete_records.parse_plan,
    "contexts": lambda path: contexts.read_contexts(),
}
MALFORMED = {
    "nothing": b"",
    "binary": b"\xff\xfe\x00",
    "much that is binary": b"\xff\xfe\x00" * DEEP,
    "a large entry": (ENTRY % (f'"{"x" * DEEP}"', 1, '"x"')).encode(),
    "cut": b'{"partitions": [',
    "brackets": b"[" * DEEP,
    "closed brackets": b"[" * DEEP + b"]" * DEEP,
    "braces": b'{"partitions":' * DEEP,
    "brackets inside": b'{"partitions": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    **{text: text.encode() for text in ("null", "5", "1e400", "[]", "{}", '"x"', '{"partitions": 5}', "[[[]]]")},
    **{f"number {text}": (ENTRY % (text, text, text)).encode() for text in ("1e400", "-1e400", "NaN", "null", "[]")},
    "digits": (ENTRY % ("9" * 5_000, 0, 0)).encode(),
    "contexts": b'{"contexts": {"a": {"bootstrap_server": 1e400}}}',
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
def test_it_is_refused_with_its_name(
    reader: str, data: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(data)
    monkeypatch.setattr(contexts, "contexts_file", lambda: path)
    with pytest.raises(click.ClickException) as refused:
        READERS[reader](path)
    assert refused.value.message.startswith(f"{path} is not ")
    assert len(refused.value.message) < 2_000


@pytest.mark.parametrize("read", [reassign.read_plan, lambda path: offset_reset.read_csv(path, "g")])
def test_a_file_without_an_end_is_refused(read: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "SIZE_BYTES_MAX", 3 << 20)
    with pytest.raises(click.ClickException, match=r"^/dev/zero has more than 3 MiB$"):
        read(Path("/dev/zero"))
