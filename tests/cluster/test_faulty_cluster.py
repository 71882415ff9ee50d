"""The faults that the chaos tests inject take place: links are cut, disks are full, clocks are wrong."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import skewed_node
from support.networks import CLIENTS, Network, why_no_network

PORT = 9092
SERVER = f"import socket, sys; s = socket.create_server((sys.argv[1], {PORT})); print(flush=True)\nwhile 1: s.accept()"
CLIENT = f"import socket, sys; socket.create_connection((sys.argv[1], {PORT}), 0.5)"
LINKS = [(sender, receiver) for sender in (1, 2, 3, CLIENTS) for receiver in (1, 2, 3) if sender != receiver]


def reached(network: Network) -> set[tuple[int, int]]:
    """The links over which a client reaches a server."""
    trying = {}
    for sender, receiver in LINKS:
        inside = [] if sender == CLIENTS else network.inside(sender)
        command = [*inside, sys.executable, "-S", "-c", CLIENT, network.address(receiver)]
        trying[sender, receiver] = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    return {link for link, process in trying.items() if process.wait() == 0}


@pytest.mark.slow
@pytest.mark.skipif(why_no_network() is not None, reason=why_no_network() or "")
def test_links_of_a_network_are_cut_one_by_one() -> None:
    servers: list[subprocess.Popen[bytes]] = []
    with Network([1, 2, 3]) as network:
        assert network.interface in {name for _, name in socket.if_nameindex()}
        try:
            for node in network.nodes:
                command = [*network.inside(node), sys.executable, "-S", "-c", SERVER, network.address(node)]
                servers.append(subprocess.Popen(command, stdout=subprocess.PIPE))
                assert servers[-1].stdout is not None
                servers[-1].stdout.readline()
            network.cut(1, 2)
            network.cut(3, CLIENTS)
            cut = {(1, 2), (2, 1), (CLIENTS, 3)}
            assert reached(network) & cut == set()
            network.mend((2, 1))
            for _ in range(20):  # a busy machine may need longer than half a second for a connection
                if reached(network) == set(LINKS) - {(CLIENTS, 3)}:
                    break
            assert reached(network) & {(CLIENTS, 3)} == set()
            network.mend()
            with socket.create_connection((network.address(3), PORT), 60):
                pass
        finally:
            for server in servers:
                server.kill()
                server.wait()
    assert network.interface not in {name for _, name in socket.if_nameindex()}


def test_a_node_with_a_wrong_clock(tmp_path: Path) -> None:
    program = "import skewed_node, time; before = time.monotonic(); skewed_node.set_clock(3600);"
    program += "print(time.time(), time.time_ns(), time.monotonic() - before)"
    folder = os.path.dirname(skewed_node.__file__)
    command = [sys.executable, "-S", "-c", program]
    printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split()
    assert float(printed[0]) > time.time() + 1800
    assert int(printed[1]) > time.time_ns() + 1800 * 10**9
    assert float(printed[2]) < 1800
