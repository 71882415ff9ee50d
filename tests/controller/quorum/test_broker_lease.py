"""A broker's lease ends before another broker can be elected in its place."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import trio
import trio.testing
from support.quorum import Controllers, heartbeat, register, run

from minikafka.controller.quorum.broker_lease import BrokerLease, contact_answer
from minikafka.controller.quorum.handshake import ConnectionLost
from minikafka.controller.quorum.peers import Unreachable

SESSION_S, TIMEOUT_S = 9.0, 2.0
LEADER, OTHER = 2, 3


class Controller:
    """Answers a contact after a while, or fails."""

    def __init__(self, answer: dict[str, Any] | Exception, after_s: float = 0.5) -> None:
        self.answer, self.after_s = answer, after_s

    async def request(self, node_id: int, kind: str, body: Mapping[str, Any]) -> dict[str, Any]:
        assert (node_id, kind, body) == (LEADER, "applied", {"epoch": 1})
        await trio.sleep(self.after_s)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def with_lease(controller: Controller, scenario: Callable[[BrokerLease], Awaitable[None]]) -> None:
    async def main() -> None:
        await scenario(BrokerLease(controller.request, SESSION_S, TIMEOUT_S))

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_it_holds_for_a_session_from_when_the_contact_was_sent() -> None:
    async def scenario(lease: BrokerLease) -> None:
        assert not lease.holds
        began = trio.current_time()
        assert await lease.report(LEADER, {"epoch": 1})
        assert trio.current_time() == began + 0.5
        await trio.sleep_until(began + SESSION_S - 0.01)
        assert lease.holds
        await trio.sleep_until(began + SESSION_S)
        assert not lease.holds

    with_lease(Controller(contact_answer(confirmed=True)), scenario)


@pytest.mark.parametrize(
    ("controller", "answered"),
    [
        (Controller(contact_answer(confirmed=False)), True),
        (Controller({"error": "no controller"}), True),
        (Controller(Unreachable("away")), False),
        (Controller(ConnectionLost("lost")), False),
        (Controller(contact_answer(confirmed=True), TIMEOUT_S + 1), False),
    ],
    ids=["not confirmed", "an error", "unreachable", "lost", "too late"],
)
def test_a_contact_that_is_not_confirmed_does_not_prolong_it(controller: Controller, answered: bool) -> None:
    async def scenario(lease: BrokerLease) -> None:
        failing = controller.answer, controller.after_s
        controller.answer, controller.after_s = contact_answer(confirmed=True), 0
        began = trio.current_time()
        assert await lease.report(LEADER, {"epoch": 1})
        controller.answer, controller.after_s = failing
        await trio.sleep(1)
        assert await lease.report(LEADER, {"epoch": 1}) is answered
        assert lease.holds
        await trio.sleep_until(began + SESSION_S)
        assert not lease.holds

    with_lease(controller, scenario)


def test_it_ends_with_the_connection_to_the_controller_that_confirmed_it() -> None:
    async def scenario(lease: BrokerLease) -> None:
        await lease.report(LEADER, {"epoch": 1})
        lease.lost(OTHER)
        assert lease.holds
        lease.lost(LEADER)
        assert not lease.holds

    with_lease(Controller(contact_answer(confirmed=True)), scenario)


async def three_brokers(cluster: Controllers) -> tuple[int, list[int]]:
    await cluster.start(1, 2, 3)
    leader = (await cluster.leader()).node_id
    for node_id in (1, 2, 3):
        await register(cluster[node_id], node_id)
        cluster.stay_alive(node_id)
    await cluster.agree()
    return leader, [node_id for node_id in (1, 2, 3) if node_id != leader]


async def leases(cluster: Controllers) -> None:
    """Wait until all nodes have a lease."""
    with trio.fail_after(10):
        while not all([await cluster[one].report_contact() and cluster[one].has_lease() for one in (1, 2, 3)]):
            await trio.sleep(0.05)


@pytest.mark.parametrize("is_active", [False, True], ids=["a broker", "the active controller"])
def test_a_node_that_is_cut_off_has_no_lease_once_others_fence_it(is_active: bool) -> None:
    async def scenario(cluster: Controllers) -> None:
        active, others = await three_brokers(cluster)
        await leases(cluster)
        cut_off = active if is_active else others[0]
        seen = others[1]
        cluster.network.isolate(cut_off)
        with trio.fail_after(20):
            while cut_off in cluster[seen].image.live_brokers():
                elected = cluster[seen].is_active or cluster[others[0]].is_active
                assert not (is_active and elected and cluster[cut_off].has_lease())
                await trio.sleep(0.002)
        assert not cluster[cut_off].has_lease()
        cluster.network.heal()
        await cluster.agree()
        assert not await confirmed(cluster, cut_off), "it is fenced"
        await heartbeat(cluster[cut_off], cut_off, cluster[cut_off].broker_epoch)
        await leases(cluster)

    run(scenario)


def test_a_node_that_wakes_up_has_no_lease_before_it_has_heard_anything() -> None:
    """Whether it was the active controller or not: what was asked meanwhile is answered before any timer."""

    async def scenario(cluster: Controllers) -> None:
        await three_brokers(cluster)
        await leases(cluster)
        clock = trio.lowlevel.current_clock()
        assert isinstance(clock, trio.testing.MockClock)
        clock.jump(60)
        assert not any(cluster[node_id].has_lease() for node_id in (1, 2, 3))

    run(scenario)


async def confirmed(cluster: Controllers, node_id: int) -> bool:
    await cluster[node_id].report_contact()
    return cluster[node_id].has_lease()
