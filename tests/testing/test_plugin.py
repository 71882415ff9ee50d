"""The pytest plugin, as it is found by its installation alone, in runs of pytest of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest


def run(folder: Path, code: str, *options: str) -> str:
    """The output of pytest, which runs these tests in an empty folder."""
    (folder / "test_it.py").write_text(textwrap.dedent(code))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--tb=short", *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout


def test_each_test_has_an_empty_kafka(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        from confluent_kafka import Consumer, Producer

        def test_one(kafka):
            kafka.create_topic("t")
            kafka.produce("t", ["a"])
            kafka.fail("Produce", "CORRUPT_MESSAGE")
            kafka.clock.advance(hours=1)
            kafka.kill(1)

        def test_two(kafka):
            assert kafka.nodes == {1: "running"}
            assert kafka.records("t") == [] and kafka.groups == [] and kafka.requests() == []
            producer = Producer(kafka.client_config("confluent"))
            producer.produce("t", b"b")
            assert producer.flush(10) == 0
            assert [(one.value, one.offset) for one in kafka.records("t")] == [(b"b", 0)]
        """,
    )
    assert "2 passed" in said, said
    assert "warning" not in said, said


def test_clients_that_a_test_leaves_are_named_and_harm_no_other(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        from confluent_kafka import Consumer

        left = []

        def consumer(kafka):
            made = Consumer({**kafka.client_config("confluent"), "group.id": "g", "auto.offset.reset": "earliest",
                             "client.id": "forgotten"})
            made.subscribe(["t"])
            return made

        def test_one(kafka):
            kafka.produce("t", ["one"])
            left.append(consumer(kafka))
            assert left[0].poll(20).value() == b"one"

        def test_two(kafka):
            kafka.produce("t", ["two"])
            mine = consumer(kafka)
            assert mine.poll(20).value() == b"two"
            kafka.wait_for_members("g", 1)
            mine.close()
        """,
    )
    assert "2 passed, 1 warning" in said, said
    assert "KafkaClientsLeft: test_it.py::test_one has left clients that were connected: forgotten (127.0.0.1" in said


def test_a_client_that_is_about_to_connect_again_harms_no_other(tmp_path: Path) -> None:
    """It has no connection at the end of its test, since its node was killed."""
    said = run(
        tmp_path,
        """
        from confluent_kafka import Producer

        left = []

        def test_one(kafka):
            left.append(Producer(kafka.client_config("confluent")))
            left[0].list_topics(timeout=20)
            kafka.kill(1)
            left[0].produce("t", b"late")

        def test_two(kafka):
            assert left[0].flush(1) == 1
            assert kafka.records("t") == [] and kafka.requests() == []
        """,
    )
    assert "2 passed" in said, said


def test_the_marker_changes_the_kafka_of_a_test_or_a_module(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        import pytest

        pytestmark = pytest.mark.kafka(topics={"of_module": 2}, settings={"num.partitions": 4})

        def partitions(kafka, topic):
            return len({one.partition for one in kafka.records(topic)})

        def test_module(kafka):
            kafka.produce("made", [{"partition": number, "value": "x"} for number in range(4)])
            assert partitions(kafka, "made") == 4
            kafka.produce("of_module", [{"partition": number, "value": "x"} for number in range(2)])

        @pytest.mark.kafka(brokers=3, topics={"mine": 3})
        def test_mine(kafka):
            assert len(kafka.nodes) == 3
            kafka.produce("mine", [{"partition": number, "value": "x"} for number in range(3)])
            kafka.produce("made", [{"partition": 3, "value": "x"}])

        def test_module_again(kafka):
            assert len(kafka.nodes) == 1 and kafka.records("mine") == []

        def test_cluster(kafka_cluster):
            assert len(kafka_cluster.nodes) == 3
        """,
    )
    assert "4 passed" in said, said


@pytest.mark.parametrize("marker", ["broker=3", "3", "settings=3", "topics=['t']", "brokers='x'"])
def test_a_wrong_marker_is_refused(tmp_path: Path, marker: str) -> None:
    said = run(
        tmp_path, f"import pytest\n\n@pytest.mark.kafka({marker})\ndef test_one(kafka):\n    pass\n", "--strict-markers"
    )
    assert "1 error" in said, said
    assert "the marker kafka" in said, said
    assert "UsageError" in said, said


def test_workers_have_a_kafka_each(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        import pytest

        @pytest.mark.parametrize("number", range(6))
        def test_one(kafka, number):
            assert kafka.records("t") == []
            kafka.produce("t", [str(number)] * 3)
            assert [one.value for one in kafka.records("t")] == [str(number).encode()] * 3
        """,
        "-n", "2",
    )  # fmt: skip
    assert "6 passed" in said, said


def test_the_plugin_imports_nothing_heavy_before_a_fixture_is_used(tmp_path: Path) -> None:
    said = run(
        tmp_path,
        """
        import sys

        def test_modules():
            assert "minikafka.testing.pytest_plugin" in sys.modules
            heavy = ("trio", "anyio", "asyncio", "msgpack", "minikafka.client", "minikafka.broker")
            assert not [one for one in heavy if one in sys.modules]
        """,
        "-p", "no:anyio", "-p", "no:hypothesispytest", "-p", "no:xdist",
    )  # fmt: skip
    assert "1 passed" in said, said


@pytest.mark.parametrize("how", ["os._exit(1)", "os.kill(os.getpid(), 9)"])
def test_the_nodes_end_with_the_tests(tmp_path: Path, how: str) -> None:
    run(
        tmp_path,
        f"""
        import os, pathlib

        def test_one(kafka):
            pathlib.Path("pid").write_text(str(kafka._process._process.pid))
            {how}
        """,
        "-s",
    )
    pid = int((tmp_path / "pid").read_text())
    for _ in range(1000):
        if not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]:
            return
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    raise AssertionError(f"process {pid} is still there")
