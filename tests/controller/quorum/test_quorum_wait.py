"""A node that waits for its quorum says so after two seconds and every ten, with the controllers it does not reach."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from support.quorum import Controllers, run

from minikafka.controller.quorum.quorum_wait import tell_of_waiting


def told(logs: list) -> list[tuple[int, list[str]]]:
    return [(one["seconds"], one["unreachable"]) for one in logs if one["event"] == "waiting for the controller quorum"]


def test_a_voter_alone_names_the_others() -> None:
    async def scenario(cluster: Controllers) -> None:
        with capture_logs() as logs:
            await cluster.start(1)
            await trio.sleep(25)
        assert [seconds for seconds, _ in told(logs)] == [2, 12, 22]
        for _, unreachable in told(logs):
            assert [one.split(": ")[0] for one in unreachable] == ["node 2 at node-2:9093", "node 3 at node-3:9093"]
            assert all("no listener at" in one for one in unreachable)

    run(scenario)


def test_a_node_that_does_not_know_the_voters_names_the_addresses() -> None:
    async def scenario(cluster: Controllers) -> None:
        cluster.format(1)
        with capture_logs() as logs:
            await cluster.start(1)
            await trio.sleep(5)
        assert [seconds for seconds, _ in told(logs)] == [2]
        assert told(logs)[0][1][0].startswith("node-2:9093: ")

    run(scenario, dynamic=True)


@pytest.mark.parametrize("cut", [False, True], ids=["killed", "cut off"])
def test_a_quorum_that_is_lost_is_waited_for_and_one_that_is_back_is_not(cut: bool) -> None:
    async def scenario(cluster: Controllers) -> None:
        with capture_logs() as logs:
            await cluster.start(1, 2, 3)
            leader = await cluster.leader()
            await trio.sleep(20)
            assert told(logs) == []
            others = [one for one in (1, 2, 3) if one != leader.node_id]
            for one in others:
                if cut:
                    cluster.network.cut((leader.node_id, one))
                else:
                    await cluster.kill(one)
            await trio.sleep(10)
            assert any(len(unreachable) == 2 for _, unreachable in told(logs)), told(logs)
            if cut:
                cluster.network.heal()
                await trio.sleep(10)
                logs.clear()
                await trio.sleep(30)
                assert told(logs) == []

    run(scenario)


def test_a_node_that_reaches_all_others_says_so() -> None:
    async def scenario() -> list[object]:
        peers: Any = SimpleNamespace(voters={1: ("a", 1), 2: ("b", 2)}, troubles={})
        with capture_logs() as logs, trio.move_on_after(3):
            await tell_of_waiting(1, peers, [("c", 3)], lambda: -1)
        return [one["unreachable"] for one in logs]

    assert trio.run(scenario, clock=trio.testing.MockClock(autojump_threshold=0)) == ["none known"]
