"""The control server, as programs in other languages use it: HTTP and JSON."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from support.oracle import free_ports

SERVE = [sys.executable, "-m", "minikafka.cli.main", "testing", "serve"]


class Control:
    """A cluster that the command line serves."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen([*SERVE, *options], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline().split()
        self.bootstrap_servers, self.address = self.ready[1], self.ready[3]

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.address, timeout=30)
        data = body if isinstance(body, str | bytes | None) else json.dumps(body)
        connection.request(method, path, data)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer


@pytest.fixture(scope="module")
def control() -> Iterator[Control]:
    made = Control("--brokers", "1", "--control", "127.0.0.1:0", "--set", "num.partitions=2")
    yield made
    made.process.send_signal(signal.SIGTERM)
    assert made.process.wait(30) == 0


def test_a_fault_from_its_beginning_to_its_end(control: Control) -> None:
    assert control.ready[::2] == ["ready", "control"]
    assert control.ask("POST", "/reset")[0] == 200
    given = {"verb": "fail", "api": "Produce", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}
    status, fault = control.ask("POST", "/faults", given)
    assert (status, fault) == (200, {"id": 1, "verb": "fail", "hits": 0, "is_over": False, "api": "Produce"})
    producer = Producer({"bootstrap.servers": control.bootstrap_servers, "retry.backoff.ms": 10})
    producer.produce("t", b"x")
    assert producer.flush(20) == 0
    status, waited = control.ask("POST", "/faults/1/wait", {"hits": 2, "timeout": 5})
    assert (status, waited["reached"], waited["hits"], waited["is_over"]) == (200, True, 2, True)
    assert control.ask("POST", "/faults/1/wait", {"hits": 3, "timeout": 0})[1]["reached"] is False
    assert control.ask("DELETE", "/faults/1")[1]["is_over"] is True
    assert control.ask("GET", "/faults/1")[1]["hits"] == 2
    status, sent = control.ask("GET", "/requests?api=Produce")
    assert (status, {one["client_id"] for one in sent}, len(sent)) == (200, {"rdkafka"}, 3)


def test_nodes_and_time(control: Control) -> None:
    first = control.ask("GET", "/cluster")[1]
    assert first == {"bootstrap_servers": first["bootstrap_servers"], "nodes": {"1": "running"}}
    for verb, state in {"kill": "down", "start": "running", "pause": "paused", "resume": "running"}.items():
        assert control.ask("POST", f"/nodes/1/{verb}") == (200, {**first, "nodes": {"1": state}})
    now_ms = control.ask("POST", "/clock/advance", {"hours": 25})[1]["now_ms"]
    assert control.ask("POST", "/clock/run", {"speed": 2})[1]["now_ms"] >= now_ms
    status, answer = control.ask("POST", "/reset", {"brokers": 2, "settings": {"num.partitions": 3}})
    assert (status, sorted(answer["nodes"]), answer["disconnected"]) == (200, ["1", "2"], [])
    assert control.ask("POST", "/clock/advance", {"seconds": 1})[1]["now_ms"] < now_ms


def test_the_description_for_programs_names_what_there_is(control: Control) -> None:
    status, described = control.ask("GET", "/openapi.json")
    assert (status, described["openapi"]) == (200, "3.0.3")
    filled = {"id": "1", "verb": "resume"}
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            place = path.format(**filled)
            status, answer = control.ask(method.upper(), place, {} if method == "post" else None)
            assert "there is no GET" not in str(answer), place
            assert "there is no POST" not in str(answer), place
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            for name in schema.get("properties", {}):
                _, answer = control.ask(method.upper(), place, {"verb": "fail", name: "x"})
                assert f"there is no argument {name!r}" not in str(answer) or path == "/faults", (place, name)


REFUSED: list[tuple[str, str, Any, int, str]] = [
    ("GET", "/", None, 404, "there is no GET /"),
    ("POST", "/cluster", None, 404, "there is no POST /cluster"),
    ("GET", "/faults/99", None, 404, "there is no fault 99"),
    ("GET", "/faults/x", None, 400, "'x' must be a whole number"),
    ("GET", "/faults/" + "9" * 5000, None, 400, "must be a whole number"),
    ("POST", "/faults", "[]", 400, "the body must be an object"),
    ("POST", "/faults", "{", 400, "the body must be JSON"),
    ("POST", "/faults", "[" * 100_000, 400, "the body must be JSON"),
    ("POST", "/faults", b"\xff\xfe", 400, "the body must be JSON"),
    ("POST", "/faults", {}, 400, "verb must be one of fail, delay, drop, disconnect, throttle"),
    ("POST", "/faults", {"verb": ["fail"]}, 400, "verb must be one of"),
    ("POST", "/faults", {"verb": "delay"}, 400, "delay needs seconds"),
    ("POST", "/faults", {"verb": "throttle"}, 400, "throttle needs ms"),
    ("POST", "/faults", {"verb": "delay", "seconds": float("nan")}, 400, "seconds must be a number"),
    ("POST", "/faults", {"verb": "drop", "api": ["Produce"]}, 400, "Kafka has no API"),
    ("POST", "/nodes/1/explode", None, 400, "a node has the verbs kill, stop, start"),
    ("POST", "/nodes/77/kill", None, 400, "there is no node 77"),
    ("POST", "/clock/stop", None, 400, "the clock has the verbs"),
    ("POST", "/clock/advance", {"days": 1}, 400, "there is no argument 'days'"),
    ("POST", "/clock/advance", {"hours": "1"}, 400, "hours must be a number"),
    ("POST", "/reset", {"brokers": 100}, 400, "brokers must be a whole number from 1 to 9"),
    ("POST", "/reset", {"settings": ["x"]}, 400, "settings must be settings by name"),
    ("POST", "/reset", {"settings": {"listeners": "x"}}, 400, "listeners"),
    ("GET", "/requests?api=X", None, 400, "Kafka has no API 'X'"),
    ("GET", "/requests?x=1", None, 400, "there is no argument 'x'"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "expected"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_cannot_be_is_refused_in_words(
    control: Control, method: str, path: str, body: Any, status: int, expected: str
) -> None:
    answered, answer = control.ask(method, path, body)
    assert (answered, expected in answer["error"]) == (status, True), answer
    assert control.ask("GET", "/cluster")[0] == 200


@pytest.mark.parametrize("size", ["-1", "x", "99999999999999", str(1 << 30)])
def test_a_body_of_an_impossible_size_is_not_waited_for(control: Control, size: str) -> None:
    host, _, port = control.address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(f"POST /faults HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        assert b" 400 " in raw.recv(1000)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--control", "nowhere"], "--control must be HOST:PORT"),
        (["--brokers", "0"], "0 is out of range: 1 to 9 are allowed"),
        (["--set", "x"], "'x' must be NAME=VALUE"),
        (["--set", "num.partitions=many"], "num.partitions"),
    ],
)
def test_a_command_that_cannot_run_says_why(options: list[str], expected: str) -> None:
    refused(options, expected)


def test_brokers_keep_the_ports_that_they_were_given() -> None:
    port = free_ports(2)
    made = Control("--brokers", "2", "--port", str(port))
    wanted = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    assert made.bootstrap_servers == wanted
    Producer({"bootstrap.servers": wanted}).list_topics(timeout=20)
    assert made.ask("POST", "/nodes/1/kill")[0] == 200
    assert made.ask("POST", "/reset")[1]["bootstrap_servers"] == wanted
    made.process.terminate()
    assert made.process.wait(30) == 0


def test_a_port_that_is_in_use_is_named(control: Control) -> None:
    refused(["--control", control.address], "in use")


def refused(options: list[str], expected: str) -> None:
    ran = subprocess.run([*SERVE, *options], capture_output=True, text=True, timeout=60)
    assert ran.returncode in (1, 2)
    assert "Traceback" not in ran.stderr
    assert expected in ran.stderr
