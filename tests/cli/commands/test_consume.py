"""`minikafka consume` prints records that confluent-kafka sent."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from threading import Event
from typing import Any

import anyio
import anyio.from_thread
import pytest
from support.clients import CODECS, Client, Outgoing, closing, eventually
from support.command_line import Minikafka, Start, waiting_bytes

from minikafka.cli.commands import consume
from minikafka.cli.commands.consume import OutputClosed, Printing, write_all
from minikafka.cli.running import Stop

FIRST_MS = 1_700_000_000_000
PIPE_SIZE_BYTES = 65_536


@pytest.fixture
def ten(judge: Client, topic: str) -> str:
    """A topic with ten records, a second apart."""
    judge.produce(topic, [Outgoing(b"v%d" % n, b"k%d" % n, timestamp_ms=FIRST_MS + n * 1000) for n in range(10)])
    return topic


def values(first: int, end: int) -> list[str]:
    return [f"v{number}" for number in range(first, end)]


def test_from_the_beginning(minikafka: Minikafka, ten: str) -> None:
    ran = minikafka("consume", ten, "--from-beginning", "-n", "10")
    assert (ran.code, ran.lines, ran.err) == (0, values(0, 10), "")


def test_timeout_without_records(minikafka: Minikafka, ten: str) -> None:
    ran = minikafka("consume", ten, "--from-beginning", "--timeout-ms", "500")
    assert (ran.code, ran.err) == (0, "")
    assert ran.lines in (values(0, 10), []), "empty if the first response took longer than the timeout"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--offset", "7"], values(7, 10)),
        (["--offset", "-2"], values(8, 10)),
        (["--offset", "-200"], values(0, 10)),
        (["--offset", "earliest"], values(0, 10)),
        (["--offset", "10"], []),
        (["--offset", "latest"], []),
    ],
)
def test_from_an_offset(minikafka: Minikafka, ten: str, words: list[str], expected: list[str]) -> None:
    end = ["-n", str(len(expected))] if expected else ["--timeout-ms", "300"]
    assert minikafka("consume", ten, "--partition", "0", *words, *end).lines == expected


@pytest.mark.parametrize("since", [str(FIRST_MS + 4_500), "2023-11-14T22:13:24.500Z", "2023-11-14T23:13:24.5+01:00"])
def test_since_a_time(minikafka: Minikafka, ten: str, since: str) -> None:
    assert minikafka("consume", ten, "--since", since, "--max-messages", "5").lines == values(5, 10)


def test_since_a_relative_time(minikafka: Minikafka, judge: Client, ten: str) -> None:
    judge.produce(ten, [Outgoing(b"fresh")])
    assert minikafka("consume", ten, "--since", "-10m", "--max-messages", "1").lines == ["fresh"]
    assert minikafka("consume", ten, "--since", "2999-01-01", "--timeout-ms", "300").lines == []


def test_max_messages(minikafka: Minikafka, ten: str) -> None:
    assert minikafka("consume", ten, "--from-beginning", "-n", "3").lines == values(0, 3)


def test_templates(minikafka: Minikafka, ten: str) -> None:
    read = ["consume", ten, "--from-beginning", "-n", "2"]
    assert minikafka(*read, "--format", "%t %p %o %T %k=%v").lines == [
        f"{ten} 0 0 {FIRST_MS} k0=v0",
        f"{ten} 0 1 {FIRST_MS + 1000} k1=v1",
    ]
    assert minikafka(*read, "--format", "%v\\n").out == "v0\nv1\n"
    assert minikafka(*read, "--format", "%v", "--delimiter", "").out == "v0v1"
    assert minikafka(*read, "--delimiter", "\\0").out == "v0\0v1\0"


def test_json(minikafka: Minikafka, judge: Client, topic: str) -> None:
    odd = Outgoing(b"\xff", headers=(("h", b"1"), ("h", None)), timestamp_ms=FIRST_MS)
    judge.produce(topic, [odd, Outgoing(None, b"zw\xc3\xb6lf")])
    ran = minikafka("consume", topic, "--from-beginning", "-n", "2", "--json")
    first, second = map(json.loads, ran.lines)
    assert first == {
        "topic": topic, "partition": 0, "offset": 0, "timestamp": FIRST_MS, "key": None,
        "value": {"base64": "/w=="}, "headers": [["h", "1"], ["h", None]],
    }  # fmt: skip
    assert (second["key"], second["value"]) == ("zwölf", None)
    assert minikafka("consume", topic, "--from-beginning", "-n", "2", "--null", "-").out.endswith("\n-\n")


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(minikafka: Minikafka, judge: Client, topic: str, codec: str) -> None:
    judge.produce(topic, [Outgoing(b"value %d" % number) for number in range(200)], codec=codec)
    ran = minikafka("consume", topic, "--from-beginning", "-n", "200", "--isolation", "read_committed")
    assert ran.lines == [f"value {number}" for number in range(200)]


def test_several_topics_and_partitions(minikafka: Minikafka, judge: Client, ten: str) -> None:
    judge.create_topic(f"{ten}-2", partitions=3)
    judge.produce(f"{ten}-2", [Outgoing(b"p%d" % number, partition=number) for number in range(3)])
    ran = minikafka("consume", ten, f"{ten}-2", "--from-beginning", "-n", "13")
    assert sorted(ran.lines) == ["p0", "p1", "p2", *values(0, 10)]
    words = ["--partition", "0", "--partition", "2", "--from-beginning", "-n", "2"]
    assert sorted(minikafka("consume", f"{ten}-2", *words).lines) == ["p0", "p2"]


def test_a_group_continues_at_its_committed_offset(minikafka: Minikafka, judge: Client, ten: str) -> None:
    read = ["consume", ten, "--group", f"{ten}-group", "--from-beginning"]
    assert minikafka(*read, "-n", "3").lines == values(0, 3)
    assert minikafka(*read, "-n", "4").lines == values(3, 7)
    assert f"{ten}-group" in judge.groups()
    with closing(judge.member(f"{ten}-group", [ten])) as member:
        got = eventually(lambda: member.poll(0.5))
    assert got[0].value == b"v7"


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere"], 1, "topic 'nowhere' does not exist at 127.0.0.1"),
        (["TOPIC", "--partition", "7"], 1, "has no partition 7"),
        (["TOPIC", "--partition", "0", "--offset", "11"], 1, "has no offset 11: its offsets start at 0, and"),
        (["TOPIC", "--offset", "3"], 2, "--offset 3 needs --partition"),
        (["TOPIC", "--offset", "x"], 2, "'x' is not an offset: give a number"),
        (["TOPIC", "--since", "yesterday"], 2, "'yesterday' is not a time: write it like"),
        (["TOPIC", "--format", "%q"], 2, "unknown letter %q; known are %t (topic)"),
        (["TOPIC", "--format", "%v", "--json"], 2, "--format and --json are mutually exclusive"),
        (["TOPIC", "--from-beginning", "--since", "-1h"], 2, "--from-beginning and --since are mutually exclusive"),
        (["TOPIC", "--group", "g", "--partition", "0"], 2, "--partition cannot be used with --group"),
        (["TOPIC", "--group", "g", "--since", "now"], 2, "--since cannot be used with --group"),
        (["TOPIC", "--option", "session.timeout.ms=1"], 2, "must be less than session_timeout_ms"),
        (["TOPIC", "-b", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1"),
        ([], 2, "see `minikafka consume --help`"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_errors_are_reported_in_one_line(
    minikafka: Minikafka, topic: str, words: list[str], code: int, message: str
) -> None:
    ran = minikafka("consume", *[topic if word == "TOPIC" else word for word in words])
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.startswith('{"errors": [' if "--json" in words else "Error: ")
    assert ran.err.count("\n") == 1


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("words", [["consume", "--timeout-ms", "1"], ["produce"], ["perf", "consume"]])
def test_a_topic_that_is_awaited_is_named_before_it_is_given_up(
    minikafka: Minikafka, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setattr("minikafka.cli.arguments.options.FIND_TOPIC_SILENTLY_MS", 0)
    told, given_up = minikafka(*words, "nowhere").err.splitlines()
    assert told == f"Waiting for topic nowhere, which {os.environ['MINIKAFKA_BOOTSTRAP_SERVER']} has not named yet."
    assert "topic 'nowhere' does not exist" in given_up


def first_line(process: "subprocess.Popen[bytes]", produce: Callable[[], object]) -> bytes:
    """The first line printed by a consumer that starts at the end; produces until it arrives."""
    assert process.stdout is not None
    while not waiting_bytes(process.stdout.fileno()):
        produce()
        time.sleep(0.05)
    return process.stdout.readline()


@pytest.mark.slow
def test_new_records_are_printed_until_ctrl_c(started: Start, judge: Client, topic: str) -> None:
    process = started("consume", topic)
    assert first_line(process, lambda: judge.produce(topic, [Outgoing(b"news")])) == b"news\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_exit_when_the_output_pipe_is_closed(started: Start, ten: str) -> None:
    process = started("consume", ten, "--from-beginning")
    assert process.stdout is not None
    assert process.stdout.readline() == b"v0\n"
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""


@pytest.mark.slow
def test_ctrl_c_in_a_blocked_write_commits_no_unwritten_record(
    minikafka: Minikafka, started: Start, judge: Client, topic: str
) -> None:
    judge.produce(topic, [Outgoing(b"%03d" % number + b"." * 997) for number in range(200)])
    read = ["consume", topic, "--group", f"{topic}-group", "--from-beginning"]
    process = started(*read)
    assert process.stdout is not None
    descriptor = process.stdout.fileno()
    eventually(lambda: waiting_bytes(descriptor) == PIPE_SIZE_BYTES)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr is not None
    assert process.stderr.read().decode() == told(200, f"{topic}-group")
    assert minikafka(*read, "-n", "1").out.startswith("000.")


def told(count: int, group: str) -> str:
    """What is said of records that were printed in part."""
    left = f"Not printed completely, and not committed: the last {count} records"
    return f"{left}, which group {group!r} gets again.\n"


@pytest.mark.slow
@pytest.mark.parametrize("commits", ["true", "false"])
def test_what_a_reader_that_leaves_has_got_of_the_last_records_is_not_committed(
    started: Start, judge: Client, topic: str, commits: str
) -> None:
    judge.produce(topic, [Outgoing(b"%03d" % number + b"." * 997) for number in range(200)])
    group, off = f"{topic}-group", ("--option", f"enable.auto.commit={commits}")
    process = started("consume", topic, "--group", group, "--from-beginning", *off)
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"000.")
    process.stdout.close()
    assert process.wait(60) == 0
    assert process.stderr is not None
    assert process.stderr.read().decode() == (told(200, group) if commits == "true" else "")


def test_partial_writes_and_broken_pipes() -> None:
    taken: list[bytes] = []

    def write(descriptor: int, data: memoryview) -> int:
        taken.append(bytes(data[:3]))
        return len(taken[-1])

    write_all(1, b"abcdefgh", write)
    assert taken == [b"abc", b"def", b"gh"]

    def broken(descriptor: int, data: memoryview) -> int:
        raise BrokenPipeError

    with pytest.raises(OutputClosed):
        write_all(1, b"x", broken)


def test_a_signal_does_not_take_back_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when the reader has all lines, and before the thread that has written them says so."""
    stop, is_waited_for = Stop(), Event()

    class Written(Event):
        def wait(self, timeout: float | None = None) -> bool:
            is_waited_for.set()
            return super().wait(timeout)

    def write_and_be_interrupted(descriptor: int, data: bytes) -> None:
        anyio.from_thread.run_sync(stop.on_signal, signal.SIGINT)
        assert is_waited_for.wait(60)

    async def main() -> None:
        one: Any = None
        await Printing(lambda record: b"line", b"\n", None, None)._write([one], stop)
        assert stop.signal == signal.SIGINT

    monkeypatch.setattr(consume, "Event", Written)
    monkeypatch.setattr(consume, "write_all", write_and_be_interrupted)
    anyio.run(main)
