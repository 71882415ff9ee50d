"""Reads the text of a conversation: the requests of a client and the responses of Apache Kafka.

Each line is a step; a line that starts with a blank continues the previous one:

    # a title
    set num.partitions=3                    a node setting that the conversation needs
    nodes 3                                 three nodes are needed, with ids 1, 2, 3
    a> CreateTopics v7 {"topics": […]}      a request on connection `a`, which is opened on its first use
    b@2> Metadata v12 {…}                   connection `b@2` goes to node 2, `c@coordinator` to the node that the first
                                            FindCoordinator named, `o@other` to another one
    a< {"topics": […]}                      the response to the oldest open request of connection `a`
    retry a> FindCoordinator v4 {…}         repeated for up to 15 s until the response is the expected one
    a< silence 300                          no response within 300 ms of the last request
    a< closed                               the node closed the connection
    a close                                 the client closes the connection
    wait 200                                a pause in milliseconds or longer, see `conversation_player.play`
    a* 00000003…                            raw bytes in hex; `a* ApiVersions v0 0000…`: a complete request

`~x` is a name that is unique to the run; `$topic_id.1` is a variable for a value that differs between runs, bound at
its first occurrence. See `conversation_names`, and `conversation_values` for how messages are written as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""The result of `json.loads`."""


@dataclass(frozen=True)
class Request:
    """A request and its connection; `retried` until the response is the expected one."""

    connection: str
    api: str
    version: int
    body: Json
    retried: bool


@dataclass(frozen=True)
class RawBytes:
    """Raw bytes to send; the response is decoded as that of `api` at `version`."""

    connection: str
    data: bytes
    api: str | None
    version: int


@dataclass(frozen=True)
class Answer:
    """The expected response in its comparable form."""

    connection: str
    body: Json


@dataclass(frozen=True)
class Silence:
    """No response within the time."""

    connection: str
    time_ms: int


@dataclass(frozen=True)
class Closed:
    """The node has closed the connection."""

    connection: str


@dataclass(frozen=True)
class HangUp:
    """The client closes the connection."""

    connection: str


@dataclass(frozen=True)
class Wait:
    """A pause of all connections."""

    time_ms: int


Step: TypeAlias = Request | RawBytes | Answer | Silence | Closed | HangUp | Wait


@dataclass
class Conversation:
    """A parsed file.

    Attributes:
        settings: the node settings that differ from the defaults.
        nodes: the number of nodes.
        steps: in order, each with its line number.
    """

    path: Path
    title: str = ""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    nodes: int = 1
    steps: list[tuple[int, Step]] = field(default_factory=list[tuple[int, Step]])


class NotAStepError(ValueError):
    """A line that is no valid step."""


def read(path: Path) -> Conversation:
    """Reads a conversation. Raises NotAStepError with file and line if it is invalid."""
    conversation = Conversation(path)
    for number, line in _logical_lines(path.read_text()):
        if line.startswith("#"):
            conversation.title = conversation.title or line[1:].strip()
        elif line.startswith("set "):
            name, _, value = line[4:].strip().partition("=")
            conversation.settings[name] = value
        elif line.startswith("nodes "):
            conversation.nodes = int(line[6:])
        else:
            try:
                conversation.steps.append((number, _step(line)))
            except ValueError as error:
                raise NotAStepError(f"{path}:{number}: {error}") from None
    return conversation


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and blank lines, continuation lines joined, each with the number of its first line."""
    number, joined = 0, ""
    for n, line in enumerate([*text.splitlines(), ""], 1):
        if line[:1] in (" ", "\t") and line.strip():
            joined += " " + line.strip()
            continue
        if joined:
            yield number, joined
        number, joined = n, line.rstrip()


def _step(line: str) -> Step:
    if found := re.fullmatch(r"(retry )?([\w@]+)> (\w+) v(\d+) (.*)", line):
        retry, connection, api, version, body = found.groups()
        return Request(connection, api, int(version), json.loads(body), bool(retry))
    if found := re.fullmatch(r"([\w@]+)\* (?:(\w+) v(\d+) )?([0-9a-f ]+)", line):
        return RawBytes(found[1], bytes.fromhex(found[4]), found[2], int(found[3] or 0))
    if found := re.fullmatch(r"([\w@]+)< silence (\d+)", line):
        return Silence(found[1], int(found[2]))
    if found := re.fullmatch(r"([\w@]+)< (.*)", line):
        return Closed(found[1]) if found[2] == "closed" else Answer(found[1], json.loads(found[2]))
    if found := re.fullmatch(r"([\w@]+) close", line):
        return HangUp(found[1])
    if found := re.fullmatch(r"wait (\d+)", line):
        return Wait(int(found[1]))
    raise ValueError(f"not a step: {line[:80]}")
