"""`minikafka offsets`, `delete-records` and `producers`; Kafka's own tools and confluent-kafka are the judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import pytest
from support.command_line import Minikafka
from support.node import NodeProcess
from support.open_transaction import open_transaction
from support.oracle import needs_oracle, tool

from minikafka.cli.commands import topics
from minikafka.cli.commands.delete_records import parse_plan
from minikafka.client import Admin
from minikafka.client.connections.cluster_metadata import Topic

TIMES_MS = (1_000, 2_000, 3_000, 2_500)
"""Of the records in the topic of `filled`."""


def ranges(minikafka: Minikafka, *names: str) -> list[tuple[int, int, int]]:
    """Partition, first offset and end."""
    listed = json.loads(minikafka("offsets", *names, "--json").out)
    return [(one["partition"], one["first"], one["end"]) for one in listed]


def test_first_offsets_and_ends(minikafka: Minikafka, filled: str) -> None:
    assert ranges(minikafka, filled) == [(0, 0, 4), (1, 0, 0)]
    assert minikafka("delete-records", f"{filled}:0", "--before", "1").lines[1].split() == [filled, "0", "1"]
    shown = minikafka("offsets", filled)
    assert [line.split()[1:] for line in shown.lines] == [
        ["PARTITION", "FIRST", "END", "OFFSETS"],
        ["0", "1", "4", "3"],
        ["1", "0", "0", "0"],
    ]
    listed = json.loads(minikafka("offsets", "--json").out)
    assert {"topic": filled, "partition": 0, "first": 1, "end": 4} in listed


@pytest.mark.parametrize(
    ("words", "offset", "timestamp_ms"),
    [
        (("--time", "1500"), 1, 2_000),
        (("--time", "1970-01-01T00:00:02.600Z"), 2, 3_000),
        (("--time", "9000"), None, None),
        (("--newest",), 2, 3_000),
    ],
)
def test_offsets_of_a_time(
    minikafka: Minikafka, filled: str, words: tuple[str, ...], offset: int | None, timestamp_ms: int | None
) -> None:
    first, second = json.loads(minikafka("offsets", filled, *words, "--json").out)
    assert (first["offset"], first["timestamp_ms"]) == (offset, timestamp_ms)
    assert (second["partition"], second["offset"]) == (1, None)
    row = minikafka("offsets", f"{filled}:0", *words).lines[1].split()
    assert row[2] == ("-" if offset is None else str(offset))


def test_the_end_of_what_is_committed(minikafka: Minikafka, node: NodeProcess, topic: str) -> None:
    assert minikafka("produce", topic, stdin=b"one\ntwo\n").code == 0
    open_transaction(node.bootstrap, topic)
    assert minikafka("offsets", topic).lines[1].split()[1:] == ["0", "0", "3", "3"]
    assert minikafka("offsets", topic, "--committed").lines[1].split()[1:] == ["0", "0", "2", "2"]
    found = json.loads(minikafka("producers", topic, "--json").out)
    (one,) = [one for one in found if one["transaction_start_offset"] is not None]
    assert (one["partition"], one["last_sequence"], one["transaction_start_offset"]) == (0, 0, 2)
    assert sorted(line.split()[-1] for line in minikafka("producers", f"{topic}:0").lines[1:]) == ["-", "2"]


@pytest.mark.parametrize(
    ("words", "what"),
    [("offsets", "offsets"), ("producers", "producers"), ("transactions find-hanging", "transactions")],
)
def test_partitions_without_a_leader_are_named(
    minikafka: Minikafka, filled: str, words: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command succeeds with what it finds of the others."""
    all_led = topics.described

    async def described(admin: Admin, names: Sequence[str] | None) -> dict[str, Topic]:
        led, other = (found := await all_led(admin, names))[filled].partitions
        return found | {filled: replace(found[filled], partitions=(led, replace(other, leader=-1)))}

    monkeypatch.setattr(topics, "described", described)
    ran = minikafka(*words.split(), filled, "--json")
    assert (ran.code, ran.err) == (0, f"{filled}-1 has no leader: its {what} are not known\n")
    assert isinstance(json.loads(ran.out), list)


def test_records_are_deleted(minikafka: Minikafka, filled: str, tmp_path: Path) -> None:
    plan = {"partitions": [{"topic": filled, "partition": 0, "offset": 1}], "version": 1}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert minikafka("delete-records", "--from-file", str(tmp_path / "plan.json")).code == 0
    assert ranges(minikafka, filled) == [(0, 1, 4), (1, 0, 0)]
    assert minikafka("delete-records", filled, "--before-time", "2600").code == 0
    assert ranges(minikafka, filled) == [(0, 2, 4), (1, 0, 0)]
    done = json.loads(minikafka("delete-records", filled, "--all", "--json").out)
    assert [(one["partition"], one["first"]) for one in done] == [(0, 4), (1, 0)]
    assert ranges(minikafka, filled) == [(0, 4, 4), (1, 0, 0)]


def test_one_partition_that_refuses_does_not_stop_the_others(minikafka: Minikafka, filled: str) -> None:
    ran = minikafka("delete-records", filled, "--before", "3")
    assert (ran.code, [line.split() for line in ran.lines[1:]]) == (1, [[filled, "0", "3"]])
    said = f"Error: {filled}-1 has no offset 3, so that nothing was deleted from it; `minikafka offsets {filled}:1`"
    assert ran.err.startswith(said)
    assert ranges(minikafka, filled) == [(0, 3, 4), (1, 0, 0)]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("offsets", "nowhere"), 1, "topic 'nowhere' does not exist"),
        (("offsets", "TOPIC:3"), 1, "topic 'TOPIC' has no partition 3: it has only partition 0"),
        (("offsets", "TOPIC:x"), 2, ":x' is not"),
        (("offsets", "TOPIC", "--newest", "--time", "now"), 2, "--newest and --time are mutually exclusive"),
        (("offsets", "TOPIC", "--time", "soon"), 2, "'soon' is not a time"),
        (("producers", "TOPIC:3"), 1, "has no partition 3"),
        (("delete-records", "TOPIC"), 2, "one of --before, --before-time and --all"),
        (("delete-records", "TOPIC", "--all", "--before", "1"), 2, "one of --before, --before-time and --all"),
        (("delete-records", "--all"), 2, "give topics or partitions"),
        (("delete-records", "nowhere", "--all"), 1, "topic 'nowhere' does not exist"),
        (("delete-records", "TOPIC:0", "TOPIC:5", "--all"), 1, "has no partition 5"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_what_does_not_exist_is_named(
    minikafka: Minikafka, topic: str, words: tuple[str, ...], code: int, error: str
) -> None:
    ran = minikafka(*(word.replace("TOPIC", topic) for word in words))
    assert (ran.code, ran.out) == (code, ""), ran
    assert error.replace("TOPIC", topic) in ran.err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "plan.json is not"),
        ('{"partitions": [{"topic": "t", "partition": 0}]}', "KeyError"),
        ('{"partitions": [{"topic": "t", "partition": "0", "offset": 1}]}', "TypeError"),
        ('{"partitions": [{"topic": "t", "partition": 0, "offset": true}]}', "TypeError"),
        (json.dumps({"partitions": [{"topic": "t", "partition": 0, "offset": 1}] * 2}), "t-0 is there twice"),
    ],
)
def test_plans_are_checked(text: str, error: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(click.ClickException, match=error):
        parse_plan(tmp_path / "plan.json")


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafkas_tools_give_the_same_figures(minikafka: Minikafka, node: NodeProcess, filled: str) -> None:
    open_transaction(node.bootstrap, filled)
    assert minikafka("delete-records", f"{filled}:0", "--before", "1").code == 0
    theirs = ("get-offsets", "--bootstrap-server", node.bootstrap, "--topic", filled)
    known = ranges(minikafka, filled)
    for time, place in (("earliest", 1), ("latest", 2)):
        assert tool(*theirs, "--time", time).splitlines() == [f"{filled}:{one[0]}:{one[place]}" for one in known]
    at = {("--time", "1500"): "1500", ("--newest",): "max-timestamp"}
    for ours, time in at.items():
        listed = json.loads(minikafka("offsets", filled, *ours, "--json").out)
        expected = [f"{filled}:{one['partition']}:{one['offset']}" for one in listed if one["offset"] is not None]
        assert [line for line in tool(*theirs, "--time", time).splitlines() if line[-1] != ":"] == expected
    words = ("describe-producers", "--topic", filled, "--partition", "0")
    rows = [line.split() for line in tool("transactions", "--bootstrap-server", node.bootstrap, *words).splitlines()]
    names = ("producer_id", "producer_epoch", "last_sequence", "last_timestamp_ms", "transaction_start_offset")
    known_producers = json.loads(minikafka("producers", f"{filled}:0", "--json").out)
    assert sorted([*row[:2], *row[3:6]] for row in rows[1:]) == sorted(
        ["None" if one[name] is None else str(one[name]) for name in names] for one in known_producers
    )
