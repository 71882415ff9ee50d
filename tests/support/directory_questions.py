"""Conversations about data directories, whose paths differ between runs: `{a}` and `{b}` stand for them.

    # a title
    > AlterReplicaLogDirs v2 {"dirs": […]}      a request
    < {"results": […]}                          the response of Apache Kafka
    until > DescribeLogDirs v5 {…}              repeated until the response is the expected one

Results are in the order of their directories. Sizes of file systems, the settings of new topics and internal topics
are left out.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from minikafka.protocol.codec.schema import default_of, fields_of
from support.conversation_player import Connection

__all__ = ["Question", "answer_to", "differences", "questions_in"]

PATIENCE_S = 15.0
LEFT_OUT = ("total_bytes", "usable_bytes", "error_message", "throttle_time_ms", "topic_id", "documentation")
Question = tuple[bool, str, int, str, Any]
"""Whether it is repeated, API, version, body, and the expected response."""


def questions_in(path: Path) -> Iterator[Question]:
    """The questions of a file, with the placeholders of paths."""
    asked = ""
    for line in path.read_text().splitlines():
        if line.startswith("< "):
            again, _, rest = asked.partition("> ")
            api, version, body = rest.split(" ", 2)
            yield bool(again.strip()), api, int(version[1:]), body, json.loads(line[2:])
        elif line and not line.startswith("#"):
            asked = line


def differences(path: Path, address: tuple[str, int], directories: dict[str, str]) -> list[str]:
    """Plays a conversation; the requests whose response is another one, with both responses."""
    found: list[str] = []
    connection = Connection(address)
    for again, api, version, body, expected in questions_in(path):
        deadline = time.monotonic() + PATIENCE_S
        while (answer := answer_to(connection, api, version, body, directories)) != expected and again:
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        if answer != expected:
            found.append(f"{api} v{version} {body}\n  Kafka {json.dumps(expected)}\n  here  {json.dumps(answer)}")
    connection.close()
    return found


def answer_to(connection: Connection, api: str, version: int, body: str, directories: dict[str, str]) -> Any:
    """The response in the form of the files."""
    names = {path: name for name, path in directories.items()}
    for name, path in directories.items():
        body = body.replace(name, path)
    answer = _plain(connection.ask(api, version, json.loads(body)), names)
    for topic in answer["topics"] if api == "CreateTopics" else ():
        topic.pop("configs", None)
    return answer


def _plain(value: Any, names: dict[str, str]) -> Any:
    """JSON without fields at their default."""
    if isinstance(value, list):
        plain = [_plain(one, names) for one in value if not getattr(one, "name", "").startswith("__")]
        return sorted(plain, key=json.dumps)
    if isinstance(value, str):
        return names.get(value, value)
    if not hasattr(type(value), "__annotations__"):
        return value
    return {
        field.name: _plain(getattr(value, field.name), names)
        for field in fields_of(type(value))
        if field.name not in LEFT_OUT and getattr(value, field.name) != default_of(field)
    }
