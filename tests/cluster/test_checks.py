"""Tests of the helpers of the cluster tests: the ledger's checks, and connections that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.cluster_load import Acknowledged, Ledger, wrongs
from support.cuts import Cable

SELECT_TAKES = 1024
"""The number of descriptors that `select` supports: FD_SETSIZE."""


def history() -> tuple[Ledger, dict[int, list[bytes]]]:
    """Two partitions with two keys each; all records acknowledged, at 0.0, 0.1, 0.2 …"""
    found = {partition: [b"key-%d%d %d" % (partition, n % 2, n) for n in range(6)] for partition in (0, 1)}
    ledger = Ledger(sent=12)
    for partition, values in found.items():
        for offset, value in enumerate(values):
            ledger.acknowledged.append(Acknowledged(offset / 10, partition, offset, value))
    return ledger, found


def test_the_check_accepts_a_correct_history() -> None:
    assert wrongs(*history()) == []


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (lambda values: values.pop(), "was acknowledged at 1:5, where there is 'only 5 records'"),
        (lambda values: values.pop(), "was acknowledged and is lost"),
        (lambda values: values.append(values[5]), "is there 2 times"),
        (lambda values: values.reverse(), "is out of order"),
        (lambda values: values.insert(0, b"key-10 -1"), "was acknowledged at 1:0, where there is b'key-10 -1'"),
    ],
)
def test_the_check_finds_loss_duplicates_and_disorder(change: Callable[[list[bytes]], None], noticed: str) -> None:
    ledger, found = history()
    change(found[1])
    assert any(noticed in sentence for sentence in wrongs(ledger, found)), wrongs(ledger, found)


def test_the_check_finds_errors_and_missing_acknowledgements() -> None:
    ledger, found = history()
    ledger.refused.append("no")
    ledger.sent += 3
    assert wrongs(ledger, found) == ["the producer was refused: no", "2 records were never answered"]


def test_a_gap_is_the_longest_time_without_acknowledgement_around_the_moment() -> None:
    ledger = Ledger(acknowledged=[Acknowledged(at, 0, 0, b"") for at in (0.0, 5.0, 6.0, 7.5, 8.0)])
    assert ledger.gap_s(0, moment=6.2) == pytest.approx(1.5)
    assert ledger.gap_s(0, moment=1.0) == pytest.approx(5.0)
    assert ledger.gap_s(1, moment=1.0) == 0.0


def test_a_cable_delivers_data_sent_while_it_was_cut() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, Cable(server.getsockname()) as cable:
        threading.Thread(target=echo, args=[server], daemon=True).start()
        with socket.create_connection(("127.0.0.1", cable.port), timeout=10) as client:
            client.sendall(b"one")
            assert client.recv(100) == b"one"
            cable.cut()
            client.sendall(b"two")
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(100)
            client.settimeout(10)
            cable.mend()
            assert client.recv(100) == b"two"


def test_a_cable_works_with_more_descriptors_than_select_supports(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(SELECT_TAKES):
            stack.enter_context((tmp_path / "open").open("w"))
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        cable = stack.enter_context(Cable(server.getsockname()))
        threading.Thread(target=echo, args=[server], daemon=True).start()
        client = stack.enter_context(socket.create_connection(("127.0.0.1", cable.port), timeout=10))
        client.sendall(b"one")
        assert client.recv(100) == b"one"


def echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    while data := connection.recv(100):
        connection.sendall(data)
