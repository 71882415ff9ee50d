"""Requests made from the declarations of the messages, of up to 10 MiB: each is answered, or closes its connection with
a reason in the log; no step of the node is long (`unharmed`), and its memory is bounded.

`make hostile` sends 10,000 of them; `make sweeps` a few hundred smaller ones.
"""

from __future__ import annotations

import json
import os
from itertools import islice

import pytest
from support.clients import eventually
from support.clients_raw import RawConnection, resident_bytes
from support.grammar import Grammar
from support.node import ServerProcess
from support.oracle import Oracle

from minikafka.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from minikafka.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from minikafka.protocol.messages.find_coordinator import FindCoordinatorRequest

MIB = 1 << 20
COUNT = int(os.environ.get("MINIKAFKA_HOSTILE_REQUESTS") or 300)
SIZE_BYTES_MAX = 10 * MIB if COUNT > 300 else MIB
SEEDS = 4
CLOSED = ("connection closed", "more connections closed")
PEAK_BYTES_MAX = 300 * MIB
"""How much memory the node may take for one connection's requests: the frame, its decoded elements and the response."""


@pytest.fixture
def growth_bytes_max(growth_bytes_max: int) -> int:
    """100,000 elements are 100 MiB of small objects for a moment; the heap that held them stays in pieces."""
    return growth_bytes_max + 100 * MIB


@pytest.fixture(scope="module")
def versions(node: ServerProcess) -> ApiVersionsResponse:
    """What the node advertises. Creates a topic, and the internal topics, whose logs are made in one step."""
    if isinstance(node, Oracle):
        pytest.skip("about this node's steps")
    with RawConnection(node.address) as first:
        topic = CreatableTopic(name="grammar", num_partitions=3, replication_factor=1)
        first.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        for key_type in (0, 1):
            first.ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["t"]), 4)
        versions: ApiVersionsResponse = first.ask(ApiVersionsRequest(), 0)
        return versions


@pytest.mark.sweep
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_request_is_answered_or_closes_its_connection(
    node: ServerProcess, versions: ApiVersionsResponse, seed: int
) -> None:
    before, closed_before = resident_bytes(node.pid), closed(node)
    hung_up = answered = 0
    connection = RawConnection(node.address)
    for frame in islice(Grammar(versions, seed, size_bytes_max=SIZE_BYTES_MAX).requests(), COUNT // SEEDS):
        try:
            connection.send(frame)
            assert connection.receive_frame()[:4] == frame[8:12]
            answered += 1
        except ConnectionError:
            hung_up += 1
            connection.close()
            connection = RawConnection(node.address)
    connection.close()
    assert hung_up + answered == COUNT // SEEDS
    assert answered > hung_up

    def all_are_told() -> bool:
        """Of many lines in a second the log has the number, before the line of the next connection that is closed."""
        nonlocal hung_up
        close_one(node)
        hung_up += 1
        return closed(node) - closed_before >= hung_up

    eventually(all_are_told)
    assert peak_bytes(node.pid) - before < PEAK_BYTES_MAX


def close_one(node: ServerProcess) -> None:
    """Let the node close a connection with a reason."""
    with RawConnection(node.address) as connection:
        connection.send((4).to_bytes(4, "big") + bytes.fromhex("7fff0000"))
        with pytest.raises(ConnectionError):
            connection.receive_frame()


def closed(node: ServerProcess) -> int:
    """The number of connections that the node closed, with a reason, by its log."""
    lines = (json.loads(line) for line in node.log_path.read_text(errors="replace").splitlines() if " closed" in line)
    return sum(line.get("count", 1) for line in lines if line["event"] in CLOSED)


def peak_bytes(pid: int) -> int:
    """The largest resident memory of a process so far (Linux)."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
