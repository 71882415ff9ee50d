"""`minikafka groups`: its tables, resets and refusals; confluent-kafka and Kafka's own tool are the judges."""

from __future__ import annotations

import json
import os
import pty
import re
import struct
import termios
from collections.abc import Callable, Iterator
from fcntl import ioctl
from pathlib import Path
from typing import Any

import click
import pytest
from support.clients import WAIT_S, eventually
from support.command_line import Minikafka, Start
from support.node import NodeProcess
from support.oracle import needs_oracle, tool

from minikafka.cli.commands.group_rows import (
    GroupOffsets,
    PartitionOffsets,
    assignment_text,
    lag_rows,
    note_of,
    notes_of,
)
from minikafka.cli.commands.offset_reset import parse_csv
from minikafka.cli.terminal.redraw import Redrawing, fitting
from minikafka.client import GroupDescription, TopicPartition
from minikafka.client.admin.admin_types import GroupMember

ck = pytest.importorskip("confluent_kafka")
TIMES_MS = (1_000, 2_000, 3_000, 4_000, 5_000)
"""Of the records in the topic of `filled`."""
MemberOf = Callable[..., Any]


@pytest.fixture
def member_of(node: NodeProcess) -> Iterator[MemberOf]:
    """`member_of(group, …)` is a consumer of confluent-kafka, which is closed at the end."""
    consumers: list[Any] = []

    def make(group: str, **settings: object) -> Any:
        consumers.append(ck.Consumer({"bootstrap.servers": node.bootstrap, "group.id": group, **settings}))
        return consumers[-1]

    yield make
    for consumer in consumers:
        consumer.close()


@pytest.fixture
def committed(member_of: MemberOf, filled: str) -> Callable[[], list[int]]:
    """The committed offsets of the topic's partitions, as confluent-kafka sees them; 2 and none at first."""
    consumer = member_of(filled)
    partitions = [ck.TopicPartition(filled, one) for one in (0, 1)]
    consumer.commit(offsets=[ck.TopicPartition(filled, 0, 2)], asynchronous=False)
    return lambda: [one.offset for one in consumer.committed(partitions, timeout=WAIT_S)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--to-earliest",), [0, 0]),
        (("--to-latest",), [5, 0]),
        (("--to-current",), [2, 0]),
        (("--to-offset", "4"), [4, 0]),
        (("--to-offset", "-3"), [0, 0]),
        (("--to-time", "3000"), [2, 0]),
        (("--to-time", "1970-01-01T00:00:03.500Z"), [3, 0]),
        (("--to-time", "9000"), [5, 0]),
    ],
)
def test_offsets_are_reset_and_shown_before(
    minikafka: Minikafka,
    filled: str,
    committed: Callable[[], list[int]],
    words: tuple[str, ...],
    expected: list[int],
) -> None:
    reset = ("groups", "reset-offsets", filled, "--topic", filled, *words)
    shown = minikafka(*reset, "--dry-run")
    assert shown.code == 0, shown
    assert [line.split()[2:] for line in shown.lines[1:3]] == [["0", "2", str(expected[0])], ["1", "-", "0"]]
    assert "Nothing was changed" in shown.err
    assert committed() == [2, ck.OFFSET_INVALID]
    done = minikafka(*reset, "--execute")
    assert (done.code, done.lines[:-1]) == (0, shown.lines[:-1])
    assert re.fullmatch(r"[012] offsets? differs? from what is committed\.", shown.lines[-1])
    assert re.fullmatch(r"[012] offsets? changed\.", done.lines[-1])
    assert committed() == expected


def test_a_group_that_does_not_exist_is_created_with_a_word(minikafka: Minikafka, topic: str) -> None:
    reset = ("groups", "reset-offsets", "--topic", topic, "--to-earliest")
    assert minikafka(*reset, "zyx-quartz-wvu", "--execute").err == "Created group zyx-quartz-wvu: it did not exist.\n"
    assert minikafka(*reset, "zyx-quartz-wvu", "--execute").err == ""
    assert minikafka(*reset, "zyx-quarzt-wvu").err.splitlines() == [
        "Group zyx-quarzt-wvu does not exist (did you mean 'zyx-quartz-wvu'?): --execute creates it.",
        "Nothing was changed: add --execute to commit these offsets.",
    ]
    made = minikafka(*reset, "zyx-quarzt-wvu", "--execute")
    assert made.err == "Created group zyx-quarzt-wvu: it did not exist (did you mean 'zyx-quartz-wvu'?).\n"
    assert minikafka(*reset, "zyx-quatrz-wvu", "--json").err == "", "a program reads the result"


def test_offsets_are_shifted_within_the_log(
    minikafka: Minikafka, filled: str, committed: Callable[[], list[int]]
) -> None:
    shift = ("groups", "reset-offsets", filled, "--execute", "--shift-by")
    assert minikafka(*shift, "1", "--all-topics").code == 0
    assert committed() == [3, ck.OFFSET_INVALID]
    assert minikafka(*shift, "-2", "--topic", f"{filled}:0").code == 0
    assert committed() == [1, ck.OFFSET_INVALID]
    beyond = minikafka(*shift, "100", "--all-topics")
    assert "New offset (101) is higher than latest offset" in beyond.err
    below = minikafka(*shift, "-100", "--all-topics")
    assert "New offset (-95) is lower than earliest offset" in below.err
    assert committed() == [0, ck.OFFSET_INVALID]
    refused = minikafka(*shift, "1", "--topic", filled)
    assert (refused.code, committed()) == (1, [0, ck.OFFSET_INVALID])
    assert f"Cannot shift offset for partition {filled}-1 since there is no current committed offset" in refused.err


def test_exported_offsets_are_committed_from_the_file(
    minikafka: Minikafka, filled: str, committed: Callable[[], list[int]], tmp_path: Path
) -> None:
    words = ("groups", "reset-offsets", filled)
    exported = minikafka(*words, "--topic", filled, "--to-latest", "--export")
    assert exported.out == f"{filled},0,5\n{filled},1,0\n"
    (tmp_path / "plan.csv").write_text(exported.out)
    assert minikafka(*words, "--from-file", str(tmp_path / "plan.csv"), "--execute").code == 0
    assert committed() == [5, 0]
    assert minikafka(*words, "--from-file", "-", "--execute", stdin=f"{filled},{filled},0,3\n".encode()).code == 0
    assert committed() == [3, 0]
    other = minikafka(*words, "--from-file", "-", stdin=f"other,{filled},0,3\n".encode())
    assert f"No reset plan for group {filled} found" in other.err


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_an_active_group_is_shown_and_neither_reset_nor_deleted(
    minikafka: Minikafka, filled: str, member_of: MemberOf, protocol: str
) -> None:
    member = member_of(filled, **{"group.protocol": protocol, "client.id": "reader", "auto.offset.reset": "earliest"})
    member.subscribe([filled])
    eventually(lambda: member.poll(0.1) is not None and len(member.assignment()) == 2)
    member.commit(offsets=[ck.TopicPartition(filled, 0, 4)], asynchronous=False)

    listed = minikafka("groups", "list", "--state", "stable", "--type", protocol)
    assert [filled, protocol, "Stable", "consumer"] in [line.split() for line in listed.lines]
    described = json.loads(minikafka("groups", "describe", filled, "--json").out)[0]
    assert (described["state"], described["type"], described["members"]) == ("Stable", protocol, 1)
    assert (described["epoch"] is None) == (protocol == "classic")
    row = minikafka("groups", "members", filled).lines[1].split()
    assert (row[0], row[4:]) == (filled, ["reader", row[5], "2", f"{filled}:0,1"])
    lag = json.loads(minikafka("groups", "lag", filled, "--json").out)
    assert [(one["committed"], one["end"], one["lag"], one["client"]) for one in lag] == [
        (4, 5, 1, "reader"),
        (None, 0, None, "reader"),
    ]

    reset = minikafka("groups", "reset-offsets", filled, "--topic", filled, "--to-earliest", "--execute")
    words = f"Assignments can only be reset if the group '{filled}' is inactive, but the current state is Stable."
    assert (reset.code, words in reset.err) == (1, True)
    assert f"Stop its 1 member first: `minikafka groups members {filled}` shows them." in reset.err
    assert minikafka("groups", "delete", filled).code == 1


def test_a_deleted_group_is_gone(minikafka: Minikafka, filled: str, committed: Callable[[], list[int]]) -> None:
    assert f"Consumer group '{filled}' has no active members." in minikafka("groups", "lag", filled).err
    ran = minikafka("groups", "delete", "nobody", filled)
    assert (ran.code, ran.out) == (1, f"Deleted group {filled}.\n")
    assert "'nobody'" in ran.err
    assert committed() == [ck.OFFSET_INVALID] * 2
    unknown = minikafka("groups", "lag", filled)
    assert (unknown.code, unknown.out) == (1, "")
    assert f"group {filled!r} does not exist at" in unknown.err


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("--to-earliest",), 2, "one of the reset scopes must be given: --topic or --all-topics"),
        (("--topic", "t"), 2, "give one of --to-earliest, "),
        (("--topic", "t", "--to-earliest", "--shift-by", "1"), 2, "--to-earliest and --shift-by are mutually"),
        (("--topic", "t", "--to-latest", "--execute", "--dry-run"), 2, "--execute and --dry-run are mutually"),
        (("--topic", "nowhere", "--to-latest"), 1, "topic 'nowhere' does not exist"),
        (("--topic", "t:x", "--to-latest"), 2, "Invalid partition 'x' specified in topic arg 't:x'"),
        (("--topic", "TOPIC:0,7", "--to-latest"), 1, 'The partitions "TOPIC-7" do not exist'),
        (("--topic", "TOPIC", "--to-time", "soon"), 2, "'soon' is not a time"),
    ],
)
def test_what_cannot_be_reset_is_refused(
    minikafka: Minikafka, topic: str, words: tuple[str, ...], code: int, error: str
) -> None:
    ran = minikafka("groups", "reset-offsets", "g", *(word.replace("TOPIC", topic) for word in words))
    assert ran.code == code, ran
    assert error.replace("TOPIC", topic) in ran.err


@pytest.mark.slow
def test_watching_prints_one_table_after_the_other(
    minikafka: Minikafka, started: Start, filled: str, committed: Callable[[], list[int]]
) -> None:
    watching = started("groups", "lag", filled, "--watch")
    assert watching.stdout is not None
    first = [watching.stdout.readline() for _ in range(3)]
    assert first[2].split()[3:6] == [b"2", b"5", b"3"]
    assert minikafka("groups", "delete", filled).code == 0
    for line in watching.stdout:
        if b"does not exist" in line:
            break
    else:
        pytest.fail("the output ended")
    assert minikafka("groups", "lag", "--watch", "--json").code == 2


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafkas_own_tool_sees_what_was_reset(
    minikafka: Minikafka,
    node: NodeProcess,
    filled: str,
    committed: Callable[[], list[int]],
    tmp_path: Path,
) -> None:
    theirs = ("consumer-groups", "--bootstrap-server", node.bootstrap, "--group", filled)
    ours = ("groups", "reset-offsets", filled)
    assert minikafka(*ours, "--topic", f"{filled}:0", "--to-offset", "3", "--execute").code == 0
    row = next(line.split() for line in tool(*theirs, "--describe").splitlines() if line.startswith(filled))
    assert row[1:6] == [filled, "0", "3", "5", "2"]

    plan = tmp_path / "plan.csv"
    plan.write_text(tool(*theirs, "--reset-offsets", "--topic", filled, "--to-latest", "--dry-run", "--export"))
    assert minikafka(*ours, "--from-file", str(plan), "--execute").code == 0
    assert committed() == [5, 0]
    plan.write_text(minikafka(*ours, "--topic", filled, "--to-earliest", "--export").out)
    tool(*theirs, "--reset-offsets", "--from-file", plan, "--execute")
    assert committed() == [0, 0]


def test_files_of_offsets_are_checked() -> None:
    assert parse_csv("a,0,5\n\na,1,6\n", "g", "f") == {TopicPartition("a", 0): 5, TopicPartition("a", 1): 6}
    assert parse_csv('"g,1",a,0,5\nh,a,0,6\n', "g,1", "f") == {TopicPartition("a", 0): 5}
    for text, error in [
        ("a,zero,5\n", "line 1 of f is not topic,partition,offset"),
        ("a,0,5\na,0\n", "line 2 of f is not"),
        ("a,0,5\na,0,6\n", "line 2 of f lists a-0 again"),
        ("a,0,-5\n", "line 1 of f is not"),
        ("", "No reset plan for group g found in f"),
    ]:
        with pytest.raises(click.ClickException, match=error):
            parse_csv(text, "g", "f")


def test_what_is_not_known_is_a_dash() -> None:
    place, other = TopicPartition("t", 0), TopicPartition("t", 1)
    member = GroupMember("m", "c", "/h", None, [place], 3, [place, other])
    group = GroupDescription("g", "Reconciling", "consumer", "uniform", 1, [member], "consumer", 4)
    offsets = GroupOffsets(group, [PartitionOffsets(place, 7, 5, member), PartitionOffsets(other, None, None, None)])
    assert lag_rows(offsets) == [
        ["g", "t", 0, 7, 5, -2, "m", "/h", "c"],
        ["g", "t", 1, "-", "-", "-", "-", "-", "-"],
    ]
    assert assignment_text(member) == "t:0 (to have t:0,1)"
    assert note_of(group) == "Warning: Consumer group 'g' is rebalancing."


@pytest.mark.parametrize("empty", [0, 1, 3, 4, 40])
@pytest.mark.parametrize("rebalancing", [0, 1, 3, 4, 40])
def test_notes_of_many_groups_leave_room_for_the_table(empty: int, rebalancing: int) -> None:
    states = ["Empty"] * empty + ["Reconciling"] * rebalancing + ["Stable"] * 2
    found = [GroupDescription(f"g{n}", state, "consumer", "", 1, [], "consumer", 4) for n, state in enumerate(states)]
    notes = notes_of(found)
    assert len(notes) <= 3
    if empty + rebalancing > 3:
        assert len(notes) == (empty > 0) + (rebalancing > 0)
        assert not empty or f"({empty}): g0" in notes[0]
        assert max(map(len, notes)) < 80
    else:
        assert notes == [note_of(one) for one in found if note_of(one)]


def test_a_terminal_is_redrawn_in_place_and_never_overflows() -> None:
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 4, 6, 0, 0))
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as out:
        drawing = Redrawing(out)
        drawing.show(["one", "a long line"])
        drawing.show(["two"])
        drawing.show(["1", "2", "3", "4"])
        expected = "\x1b[Jone\r\na long\r\n\x1b[2A\x1b[Jtwo\r\n\x1b[1A\x1b[J1\r\n2\r\n… and "
        drawn = b""
        while "… and ".encode() not in drawn:
            drawn += screen.read(200)
        assert drawn.decode().removesuffix("\r\n") == expected
    assert fitting(["1", "2", "3", "4"], os.terminal_size((80, 4))) == ["1", "2", "… and 2 lines more"]
