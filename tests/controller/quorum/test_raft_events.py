"""A node in a later epoch than its controller: both say so, once a minute, and only if it lasts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from minikafka.controller.line_rate import LineRate
from minikafka.controller.quorum.raft_driver import RaftDriver
from minikafka.controller.quorum.raft_events import AGAIN_S, USUAL_S, RaftEvents
from minikafka.controller.raft.messages import Fetch, FetchResponse

EARLIER, LATER = 2, 4
SEEN = {
    "once": ([0.0], []),
    "during an election": ([0.0, 1.0, USUAL_S - 0.1], []),
    "in two elections": ([0.0, 1.0, 100.0, 101.0], []),
    "for a while": ([0.0, USUAL_S - 0.1, USUAL_S], [USUAL_S]),
    "for a minute": ([float(second) for second in range(64)], [USUAL_S]),
    "for longer": ([float(second) for second in range(66)], [USUAL_S, USUAL_S + AGAIN_S]),
}


@pytest.mark.parametrize(("seen_s", "told_s"), SEEN.values(), ids=SEEN)
def test_a_gap_is_told_when_it_lasts(seen_s: list[float], told_s: list[float]) -> None:
    events, told = RaftEvents(LineRate(lambda: 0)), list[float]()
    for now_s in seen_s:
        with structlog.testing.capture_logs() as lines:
            events.node_is_ahead(1000 + now_s, 2, its_epoch=LATER, own_epoch=EARLIER)
        told += [now_s] * len(lines)
    assert told == told_s


def test_lines_about_malformed_requests_are_bounded() -> None:
    """A request that comes again, and those above the rate, are logged at DEBUG."""
    times = [0.0]
    events = RaftEvents(LineRate(lambda: times[0], 3))
    with structlog.testing.capture_logs() as lines:
        for number in (1, 1, 2, 3, 4, 5):
            events.malformed_request(number, ValueError("no kind"))
        times[0] = 1000
        events.malformed_request(6, ValueError("no kind"))
    assert [line["node"] for line in lines if line["log_level"] == "error"] == [1, 2, 3, 6]
    assert [line["count"] for line in lines if line["event"] == "more malformed raft requests"] == [2]


def fetch(epoch: int) -> Fetch:
    return Fetch(epoch, 2, 0, 0, 0, 0, 0)


def driver_of(epoch: int, leader_id: int, *, is_leader: bool) -> Any:
    driver: Any = RaftDriver.__new__(RaftDriver)
    driver._events = RaftEvents(LineRate(lambda: 0))
    driver._queue = lambda effects: None
    driver._raft = SimpleNamespace(epoch=epoch, leader_id=leader_id, is_leader=is_leader)
    driver._raft.request = driver._raft.response = lambda *_: ()
    driver._raft.completed_by = lambda *_: None
    return driver


def told(hear: Any) -> list[dict[str, Any]]:
    """The lines of a node that hears the same every second."""

    async def main() -> None:
        for _ in range(10):
            await hear()
            await trio.sleep(1)

    with structlog.testing.capture_logs() as lines:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    return [dict(line) for line in lines]


@pytest.mark.parametrize(("epoch", "is_leader"), [(LATER, True), (EARLIER, True), (LATER, False)])
def test_a_leader_names_the_node_that_fetches_in_a_later_epoch(epoch: int, is_leader: bool) -> None:
    driver = driver_of(EARLIER, 1 if is_leader else 3, is_leader=is_leader)

    async def hear() -> None:
        driver.request(2, fetch(epoch).to_map(), lambda reply: None)

    lines = told(hear)
    assert len(lines) == (epoch == LATER and is_leader)
    for line in lines:
        assert (line["event"], line["log_level"]) == ("node in a later epoch", "warning")
        assert (line["node"], line["its_epoch"], line["own_epoch"]) == (2, LATER, EARLIER)
        assert line["see"] == "docs/operations/backup.md"


@pytest.mark.parametrize(("epoch", "leader_id"), [(EARLIER, -1), (LATER, -1), (EARLIER, 3)])
def test_a_node_without_a_leader_names_the_controller_that_answers_in_an_earlier_epoch(
    epoch: int, leader_id: int
) -> None:
    driver = driver_of(LATER, leader_id, is_leader=False)

    async def hear() -> None:
        await driver._effects_of(1, fetch(LATER), FetchResponse(epoch, 1))

    lines = told(hear)
    assert len(lines) == (epoch == EARLIER and leader_id < 0)
    for line in lines:
        assert (line["event"], line["log_level"]) == ("controller in an earlier epoch", "warning")
        assert (line["controller"], line["its_epoch"], line["own_epoch"]) == (1, EARLIER, LATER)
        assert line["see"] == "docs/operations/backup.md"
