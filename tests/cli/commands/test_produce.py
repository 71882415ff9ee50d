"""confluent-kafka reads what `minikafka produce` sent."""

import contextlib
import os
import pty
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from support.clients import CODECS, Client, Outgoing, connect, eventually
from support.command_line import Minikafka, Start, waiting_bytes
from support.node import NodeProcess

from minikafka.cli.commands.produce import Job, Sending
from minikafka.cli.terminal.progress import NoProgress
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import CoordinatorLoadInProgressError


def test_each_line_becomes_a_record(minikafka: Minikafka, judge: Client, topic: str) -> None:
    before_ms = time.time_ns() // 1_000_000
    ran = minikafka("produce", topic, stdin="one\nzwölf\n\nlast".encode())
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.startswith(f"4 records to {topic} in ")
    assert "records/s" in ran.err
    found = judge.consume(topic, 4)
    assert [one.value for one in found] == [b"one", "zwölf".encode(), b"", b"last"]
    assert all(one.key is None and one.timestamp_ms >= before_ms for one in found)


def test_keys_nulls_headers_and_partitions(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.add_partitions(topic, total=3)
    words = ["--key-separator", "\\t", "--null", "-", "--header", "a=b=c", "--header", "a=", "--partition", "2"]
    assert minikafka("produce", topic, *words, stdin=b"k\tv\tw\n-\t-\n").code == 0
    found = judge.consume(topic, 2, partition=2)
    assert [(one.key, one.value) for one in found] == [(b"k", b"v\tw"), (None, None)]
    assert found[0].headers == (("a", b"b=c"), ("a", b""))


@pytest.mark.slow
def test_keys_are_partitioned_as_by_the_java_client(
    minikafka: Minikafka, node: NodeProcess, judge: Client, topic: str
) -> None:
    judge.add_partitions(topic, total=5)
    keys = [b"N%d" % number for number in range(40)]
    minikafka("produce", topic, "--key-separator", ":", stdin=b"".join(key + b":\n" for key in keys))
    counts = [judge.offsets(topic, partition)[1] for partition in range(5)]
    ours = {one.key: n for n, count in enumerate(counts) for one in judge.consume(topic, count, partition=n)}
    with connect("kafka-python", node.bootstrap) as murmur2:
        results = murmur2.produce(topic, [Outgoing(b"", key=key) for key in keys])
    assert ours == {key: partition for key, (partition, _) in zip(keys, results, strict=True)}


@pytest.mark.parametrize("codec", CODECS)
def test_codecs(minikafka: Minikafka, judge: Client, topic: str, codec: str) -> None:
    lines = b"".join(b"line %d of some that repeat\n" % number for number in range(500))
    assert minikafka("produce", topic, "--compression-type", codec, stdin=lines).code == 0
    assert [one.value for one in judge.consume(topic, 500)] == lines.splitlines()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(minikafka: Minikafka, judge: Client, topic: str, acks: str) -> None:
    assert minikafka("produce", topic, "--acks", acks, "-q", stdin=b"x\n").err == ""
    assert [one.value for one in judge.consume(topic, 1)] == [b"x"]


@pytest.mark.slow
def test_a_file_larger_than_the_producers_buffer(
    minikafka: Minikafka, judge: Client, topic: str, tmp_path: Path
) -> None:
    lines = [b"%06d" % number + b"." * 194 for number in range(20_000)]
    (tmp_path / "lines.txt").write_bytes(b"\n".join(lines))
    ran = minikafka("produce", topic, str(tmp_path / "lines.txt"), "--option", "buffer.memory=200000")
    assert ran.err.startswith(f"20,000 records to {topic} in ")
    assert [one.value for one in judge.consume(topic, 20_000)] == lines


def test_a_line_without_a_key_ends_it_after_the_lines_before(minikafka: Minikafka, judge: Client, topic: str) -> None:
    ran = minikafka("produce", topic, "--key-separator", ":", stdin=b"a:1\nb:2\nnone\nc:3\n")
    assert ran.code == 1
    assert "Error: line 3 has no key: no separator b':' in 'none'\n" in ran.err
    assert [one.value for one in judge.consume(topic, 2)] == [b"1", b"2"]
    assert judge.offsets(topic) == (0, 2)


@pytest.mark.parametrize("line", [b"x" * 999, b"x" * 1001, b"x" * 5000])
def test_a_line_that_is_too_large_ends_it(minikafka: Minikafka, judge: Client, topic: str, line: bytes) -> None:
    ran = minikafka("produce", topic, "--option", "max_request_size=1000", stdin=b"ok\n" + line + b"\nnever\n")
    assert (ran.code, "Error: line " in ran.err, "max_request_size" in ran.err) == (1, True, True)
    assert judge.offsets(topic)[1] <= 1


def test_an_error_of_the_broker_is_reported(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.alter_settings(topic, {"max.message.bytes": "200"})
    ran = minikafka("produce", topic, "--option", "linger.ms=0", stdin=b"x" * 500)
    assert ran.code == 1
    assert f"0 of 1 record to {topic}" in ran.err
    assert "Error: record not delivered: " in ran.err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nowhere"], 1, "topic 'nowhere' does not exist at 127.0.0.1"),
        (["TOPIC", "--partition", "7"], 1, "has no partition 7: it has only partition 0"),
        (["TOPIC", "no-such-file"], 2, "File 'no-such-file' does not exist"),
        (["TOPIC", "--header", "x"], 2, "'x' is not name=value"),
        (["TOPIC", "--option", "lingerms=1"], 2, "did you mean linger_ms?"),
        (["TOPIC", "--option", "linger.ms=x"], 2, "Producer(linger_ms='x'): must be a whole number"),
        (["TOPIC", "--option", "partitioner=x"], 2, "a function cannot be given"),
        (["TOPIC", "--key-separator", ""], 2, "must not be empty"),
        (["TOPIC", "--key-separator", "\\q"], 2, "unknown escape \\q"),
        (["TOPIC", "-b", "127.0.0.1:port"], 2, "is not HOST:PORT; expected, for example, 127.0.0.1:9092"),
        (["TOPIC", "-b", "127.0.0.1:1"], 1, "cannot connect to 127.0.0.1:1"),
        ([], 2, "see `minikafka produce --help`"),
    ],
)
@pytest.mark.usefixtures("impatient")
def test_errors_are_reported_in_one_line(
    minikafka: Minikafka, topic: str, words: list[str], code: int, message: str
) -> None:
    ran = minikafka("produce", *[topic if word == "TOPIC" else word for word in words], stdin=b"x\n")
    assert (ran.code, ran.out) == (code, "")
    assert message in ran.err
    assert ran.err.startswith("Error: ")
    assert ran.err.count("\n") == 1


def test_options_of_every_type_reach_the_producer(minikafka: Minikafka, topic: str) -> None:
    options = ["enable.idempotence=false", "linger-ms=1", "acks=all", "compression_level=3", "client_id=me"]
    words = [word for option in options for word in ("--option", option)]
    assert minikafka("produce", topic, *words, "--compression-type", "gzip", stdin=b"x\n").code == 0


@pytest.mark.slow
def test_ctrl_c_delivers_the_lines_read_so_far(started: Start, judge: Client, topic: str) -> None:
    process = started("produce", topic)
    assert process.stdin is not None
    process.stdin.write(b"one\ntwo\nhalf a li")
    process.stdin.flush()
    assert [one.value for one in judge.consume(topic, 2)] == [b"one", b"two"]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr is not None
    *_, last = process.stderr.read().splitlines()  # after a message about pending deliveries, if any
    assert last.startswith(b"2 records to ")
    assert judge.offsets(topic) == (0, 2)


@contextlib.contextmanager
def a_line_in_flight(process: subprocess.Popen[bytes], node: NodeProcess, judge: Client, topic: str) -> Iterator[None]:
    """`process` has read a line while the node is paused, which goes on afterwards."""
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    judge.consume(topic, 1)
    node.pause()
    try:
        process.stdin.write(b"two\n")
        process.stdin.flush()
        descriptor = process.stdin.fileno()
        eventually(lambda: waiting_bytes(descriptor) == 0)
        yield
    finally:
        node.resume()


@pytest.mark.slow
def test_a_second_ctrl_c_aborts_pending_deliveries(
    started: Start, node: NodeProcess, judge: Client, topic: str
) -> None:
    process = started("produce", topic)
    assert process.stderr is not None
    with a_line_in_flight(process, node, judge, topic):
        process.send_signal(signal.SIGINT)
        said = b""
        while b"Still delivering the lines read so far, 1 to go; another Ctrl-C ends this at once." not in said:
            said = process.stderr.readline()
            assert said
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        missing = rb"; 1 not acknowledged, which may be in the topic\n"
        assert re.search(rb"1 of 2 records to .*" + missing, process.stderr.read())


@pytest.mark.slow
def test_sigterm_ends_it_though_the_broker_does_not_answer(
    started: Start, node: NodeProcess, judge: Client, topic: str
) -> None:
    process = started("produce", topic)
    assert process.stderr is not None
    with a_line_in_flight(process, node, judge, topic):
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert b"; 1 not acknowledged, which may be in the topic\n" in process.stderr.read()


@pytest.mark.slow
def test_the_summary_on_a_terminal(started: Start, topic: str, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_bytes(b"line\n" * 20_000)
    ours, theirs = pty.openpty()
    process = started("produce", topic, str(tmp_path / "lines.txt"), stderr=theirs)
    os.close(theirs)
    output = b""
    with contextlib.suppress(OSError):  # raised at the end of the process
        while data := os.read(ours, 4096):
            output += data
    os.close(ours)
    assert process.wait(60) == 0
    assert re.search(rb"20,000 records to \S+ in ", output)


@pytest.mark.slow
def test_lines_are_sent_while_the_pipe_is_open(started: Start, judge: Client, topic: str) -> None:
    process = started("produce", topic)
    assert process.stdin is not None
    for number in (1, 2):
        process.stdin.write(b"line\n")
        process.stdin.flush()
        eventually(lambda: judge.offsets(topic)[1] >= number)  # noqa: B023 (called at once)
    process.stdin.close()
    assert process.wait(60) == 0


@pytest.mark.slow
def test_a_topic_that_did_not_exist_is_said_to_be_created(tmp_path: Path, minikafka: Minikafka) -> None:
    with NodeProcess(tmp_path / "data", settings={"num.partitions": "3"}) as creating:
        words = ["produce", "-b", creating.bootstrap, "typo"]
        said = minikafka(*words, stdin=b"x\n").err
        assert said.startswith("Created topic typo with 3 partitions: it did not exist.\n")
        assert "Created" not in minikafka(*words, stdin=b"x\n").err
        assert minikafka(*words[:-1], "quiet", "--quiet", stdin=b"x\n").err == ""


@pytest.mark.slow
@pytest.mark.parametrize("words", [["produce", "t"], ["produce", "t", "--transactional-id", "x"], ["consume", "t"]])
def test_ctrl_c_ends_a_command_that_has_not_begun_at_once(words: list[str], started: Start) -> None:
    """The broker accepts connections and answers nothing; requests have a minute."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        process = started(*words, "-b", f"127.0.0.1:{silent.getsockname()[1]}")
        accepted, _ = silent.accept()
        assert accepted.recv(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        accepted.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [["produce", "TOPIC", "--transactional-id", "stuck"], ["consume", "TOPIC", "--group", "stuck"]]
)
def test_a_second_ctrl_c_ends_what_would_wait_for_the_cluster(
    words: list[str], started: Start, node: NodeProcess, judge: Client, topic: str
) -> None:
    process = started(*[topic if one == "TOPIC" else one for one in words])
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    with Admin(node.bootstrap) as admin:
        eventually(lambda: has_open(admin, "stuck") if "produce" in words else "stuck" in judge.groups())
    node.pause()
    try:
        process.send_signal(signal.SIGINT)
        while b"another Ctrl-C ends this at once" not in (said := process.stderr.readline()):
            assert said
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        said = process.stderr.read()
        assert b"Traceback" not in said
        assert (b"; the transaction is not ended: the cluster aborts it after 60 s\n" in said) == ("produce" in words)
    finally:
        node.resume()


def has_open(admin: Admin, transactional_id: str) -> bool:
    try:
        return transactional_id in [one.transactional_id for one in admin.list_transactions(states=["Ongoing"])]
    except CoordinatorLoadInProgressError:
        return False


def test_ctrl_c_does_not_deliver_what_it_aborts(started: Start, judge: Client, topic: str) -> None:
    process = started("produce", topic, "--transactional-id", topic, "--option", "linger.ms=60000")
    assert process.stdin is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    descriptor = process.stdin.fileno()
    eventually(lambda: waiting_bytes(descriptor) == 0)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert judge.offsets(topic) == (0, 0), "neither the record nor a marker"


@pytest.mark.slow
def test_ctrl_c_aborts_a_transaction(started: Start, node: NodeProcess, judge: Client, topic: str) -> None:
    process = started("produce", topic, "--transactional-id", topic)
    assert process.stdin is not None
    assert process.stderr is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    with Admin(node.bootstrap) as admin:
        eventually(lambda: has_open(admin, topic))
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr.read().splitlines()[-1].endswith(b"; the transaction was aborted")
    assert judge.offsets(topic)[1] == 2, "the marker of the abort"


def test_a_line_in_error_aborts_the_transaction(minikafka: Minikafka, judge: Client, topic: str) -> None:
    words = ["produce", topic, "--transactional-id", topic, "--json", "--quiet"]
    ran = minikafka(*words, stdin=b'{"value": "good"}\n{"value": 1}\n')
    assert ran.code == 1
    summary, error = ran.err.splitlines()
    assert summary.endswith("; the transaction was aborted")
    assert error.startswith("Error: line 2: ")
    committed = minikafka(*words, stdin=b'{"value": "good"}\n')
    assert (committed.code, committed.err) == (0, "")


@pytest.mark.parametrize(
    "words",
    [[], ["--json"], ["--header", "a=b"], ["--transactional-id", "spread"], ["--option", "linger.ms=0"]],
    ids=" ".join,
)
def test_lines_without_keys_are_spread(words: list[str], minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.add_partitions(topic, total=4)
    eventually(lambda: judge.topics()[topic] == 4)
    line = b'{"value": "x"}\n' if "--json" in words else b"x\n"
    assert minikafka("produce", topic, *words, stdin=line * 1000).code == 0
    ends = [judge.offsets(topic, partition)[1] for partition in range(4)]
    assert min(ends) >= 200, ends


def test_lines_of_one_partition_stay_there(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.add_partitions(topic, total=4)
    eventually(lambda: judge.topics()[topic] == 4)
    assert minikafka("produce", topic, "--partition", "2", stdin=b"x\n" * 100).code == 0
    assert [judge.offsets(topic, partition)[1] for partition in range(4)] == [0, 0, 100, 0]


def test_a_batch_that_grows_by_recompression_is_too_large(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.alter_settings(topic, {"compression.type": "uncompressed", "max.message.bytes": "1000"})
    words = ["produce", topic, "--compression-type", "gzip"]
    assert minikafka(*words, stdin=b"x" * 100).code == 0
    ran = minikafka(*words, stdin=b"x" * 2000)
    assert ran.code == 1
    assert "bytes which exceeds the maximum configured value of 1000" in ran.err


def test_lines_are_counted_once_when_the_end_by_force_counts_them_too(capfd: pytest.CaptureFixture[str]) -> None:
    """A second after the second signal a thread prints the summary, which the command may be doing as well."""
    sending = Sending(Job("t", "node:9092", None, None, (), None), 0, NoProgress(), quiet=False)
    force = threading.Thread(target=sending._sum_up, args=(0.0,))

    class Delivered:
        @property
        def done(self) -> bool:
            if force.ident is None:
                force.start()
                force.join(timeout=0.2)  # it ends at once, unless it waits for this one
            return True

        def result(self) -> None:
            """It is well."""

    sending._read = 3
    sending._waiting.extend(cast(Any, Delivered()) for _ in range(3))
    sending._sum_up(0.0)
    force.join()
    assert re.findall(r"^(.*) records to t in", capfd.readouterr().err, re.MULTILINE) == ["3"]
