"""The text of a conversation: what a client sends, and what Apache Kafka answered.

One step a line; a line that begins with a blank continues the one before:

    # a title that says what it shows
    set num.partitions=3                    a node setting that the conversation needs
    nodes 3                                 it needs three nodes, with ids 1, 2, 3
    a> CreateTopics v7 {"topics": […]}      connection `a`, opened on its first use, sends
    b@2> Metadata v12 {…}                   connection `b@2` goes to node 2, `c@coordinator` to the node that the first
                                            FindCoordinator named, `o@other` to another one
    a< {"topics": […]}                      and this is the answer to its oldest open request
    retry a> FindCoordinator v4 {…}         sent again, up to 15 s, until the answer is the expected one
    a< silence 300                          no answer within 300 ms of the last request
    a< closed                               the node hung up
    a close                                 the client hangs up
    wait 200                                milliseconds, or as long as it takes: see `conversation_player.play`
    a* 00000003…                            raw bytes in hex; `a* ApiVersions v0 0000…`: a whole request

`~x` is a name of this run alone; `$topic_id.1` stands for a value that differs from run to run, bound where it first
appears. See `conversation_names`, and `conversation_values` for how messages are written as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Json: TypeAlias = Any
"""What `json.loads` gives."""


@dataclass(frozen=True)
class Request:
    """What to send, and on which connection; `retried` until the answer is right."""

    connection: str
    api: str
    version: int
    body: Json
    retried: bool


@dataclass(frozen=True)
class RawBytes:
    """Bytes to send as they are; an answer to them is read as that of `api` at `version`."""

    connection: str
    data: bytes
    api: str | None
    version: int


@dataclass(frozen=True)
class Answer:
    """The expected answer in its comparable form."""

    connection: str
    body: Json


@dataclass(frozen=True)
class Silence:
    """No answer within the time."""

    connection: str
    time_ms: int


@dataclass(frozen=True)
class Closed:
    """The node has hung up."""

    connection: str


@dataclass(frozen=True)
class HangUp:
    """The client closes the connection."""

    connection: str


@dataclass(frozen=True)
class Wait:
    """A pause of everyone's."""

    time_ms: int


Step: TypeAlias = Request | RawBytes | Answer | Silence | Closed | HangUp | Wait


@dataclass
class Conversation:
    """One file, read.

    Attributes:
        settings: the node settings that differ from a default node's.
        nodes: how many there must be.
        steps: in order, each with the number of its line.
    """

    path: Path
    title: str = ""
    settings: dict[str, str] = field(default_factory=dict[str, str])
    nodes: int = 1
    steps: list[tuple[int, Step]] = field(default_factory=list[tuple[int, Step]])


class NotAStepError(ValueError):
    """A line that is nothing the format knows."""


def read(path: Path) -> Conversation:
    """A conversation; raises NotAStepError with file and line for what cannot be read."""
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
    """Lines that say something, continued ones joined, with the number of their first."""
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
