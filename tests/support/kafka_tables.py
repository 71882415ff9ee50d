"""Reads the tables of Kafka's protocol beside the checkout, to compare our declarations with."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "shared" / "kafka-protocol"

PRIMITIVES = {
    "bool", "int8", "int16", "int32", "int64", "uint16", "uint32", "float64", "string", "bytes", "uuid", "records"
}  # fmt: skip


@dataclass
class TableField:
    """A row of a table; `fields` are those of its struct, if it is one."""

    name: str
    type_name: str
    versions: str = "0+"
    nullable: str = "none"
    tag: int | None = None
    default: str | None = None
    ignorable: bool = False
    never_flexible: bool = False
    fields: list[TableField] = field(default_factory=list)

    @property
    def struct_name(self) -> str:
        return self.type_name.removeprefix("[]")


@dataclass
class TableMessage:
    """A message of a table; `structs` are those that several of its fields share."""

    name: str
    key: int | None
    versions: str
    flexible: str
    fields: list[TableField] = field(default_factory=list)
    structs: dict[str, list[TableField]] = field(default_factory=dict)


def snake(name: str) -> str:
    """``LastKnownElr`` to ``last_known_elr``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def read_table(path: Path) -> dict[str, TableMessage]:
    """The messages of a table by name."""
    messages: dict[str, TableMessage] = {}
    key: int | None = None
    open_lists: list[tuple[int, list[TableField]]] = []
    for line in filter(str.strip, path.read_text().splitlines()):
        depth = len(line) - len(line.lstrip())
        if depth == 0:
            match = re.search(r"api_key=(\d+)", line)
            key = int(match[1]) if match else None
            continue
        head = re.match(r"\s*(?:request |response )?(\w+) v(\S+) flexible=(\S+)", line)
        if head:
            message = messages[head[1]] = TableMessage(head[1], key, head[2], head[3])
            open_lists = [(depth, message.fields)]
            continue
        while open_lists[-1][0] >= depth and len(open_lists) > 1:
            open_lists.pop()
        shared = re.match(r"\s*struct (\w+):", line)
        if shared:
            open_lists.append((depth, message.structs.setdefault(shared[1], [])))
            continue
        item = _field(line.split())
        open_lists[-1][1].append(item)
        open_lists.append((depth, item.fields))
    for message in messages.values():
        _share(message)
    return messages


def _field(words: list[str]) -> TableField:
    item = TableField(snake(words[0].rstrip(":")), words[1])
    for before, word in pairwise(words[1:]):
        if re.fullmatch(r"v\d[\d+-]*", word):
            if before == "nullable":
                item.nullable = word[1:]
            else:
                item.versions = word[1:]
        elif word == "nullable":
            item.nullable = "0+"
        elif word.startswith("tag="):
            item.tag = int(word[4:])
        elif word.startswith("default="):
            item.default = word[8:].strip('"')
    item.ignorable = "ignorable" in words
    item.never_flexible = "never-flexible" in words
    return item


def _share(message: TableMessage) -> None:
    """Set the fields of every field of a struct type, which the table lists only once."""

    def walk(fields: list[TableField]) -> None:
        for item in fields:
            if item.fields:
                message.structs.setdefault(item.struct_name, item.fields)
                walk(item.fields)

    walk(message.fields)
    for fields in list(message.structs.values()):
        walk(fields)
    for fields in (message.fields, *message.structs.values()):
        for item in fields:
            if item.struct_name not in PRIMITIVES:
                item.fields = message.structs[item.struct_name]
