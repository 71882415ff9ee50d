"""A broker's registration, heartbeats and controlled shutdown, against a controller that the test scripts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import structlog.testing
import trio
import trio.testing

from minikafka.broker.node.registration import SOON_S, Registration
from minikafka.broker.settings.node_config import load_config
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerRecord, Endpoint
from minikafka.protocol.errors import (
    ErrorCode,
    InvalidRequestError,
    KafkaError,
    KafkaStorageError,
    NotControllerError,
)
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

NODE, OTHER, EPOCH = 1, 2, 40
ENDPOINT: Endpoint = ("PLAINTEXT", "localhost", 9092, "PLAINTEXT")
INTERVAL_S, PATIENCE_S = 0.5, 10
NOBODY = NotControllerError("no leader")

Answer = BrokerRegistrationResponse | BrokerHeartbeatResponse | KafkaError


def joined(epoch: int = EPOCH) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=epoch)


def not_joined(code: ErrorCode) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=code)


class Cluster:
    """A scripted controller: gives its answers in order, the last one repeatedly, and records the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.cluster_id = "a-cluster"
        self.image = Image()
        self.broker_epoch = -1
        self.offset = 7
        self.answers = list(answers)
        self.asked: list[tuple[float, Any]] = []
        self.contacts: list[float] = []
        self.advanced = trio.Event()

    async def handle(self, request: Any, version: int) -> Any:
        self.asked.append((trio.current_time(), request))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def wait_advanced(self) -> None:
        await self.advanced.wait()

    async def report_contact(self) -> None:
        self.contacts.append(trio.current_time())

    def knows(self, node_id: int, epoch: int, *, fenced: bool, leaving: bool = False) -> None:
        broker = BrokerRecord(node_id, epoch, bytes(16), (ENDPOINT,), None, fenced)
        self.image.brokers[node_id] = replace(broker, in_controlled_shutdown=leaving)
        self.advance()

    def advance(self) -> None:
        advanced, self.advanced = self.advanced, trio.Event()
        advanced.set()

    def requests(self, kind: type) -> list[Any]:
        return [request for _, request in self.asked if isinstance(request, kind)]

    @property
    def times(self) -> list[float]:
        return [round(at - self.asked[0][0], 3) for at, _ in self.asked]


def play(
    scenario: Callable[[Cluster, Registration], Awaitable[None]], *answers: Answer, is_alone: bool = False
) -> Cluster:
    """Run a scenario on a clock that jumps to the next deadline."""
    given = {"node.id": str(NODE), "listeners": "PLAINTEXT://localhost:9092"}
    if not is_alone:
        given |= {"process.roles": "broker", "controller.quorum.voters": "9@localhost:9999"}
        given |= {"controller.listener.names": "CONTROLLER"}
    given |= {"broker.rack": "b", "broker.heartbeat.interval.ms": str(round(INTERVAL_S * 1000))}
    given |= {"broker.session.timeout.ms": "2000", "initial.broker.registration.timeout.ms": str(PATIENCE_S * 1000)}
    config = load_config(settings=given)

    async def main() -> Cluster:
        cluster = Cluster(*answers)
        registration = Registration(
            config,
            cluster,
            incarnation_id=b"i" * 16,
            endpoints=[ENDPOINT],
            previous_broker_epoch=33,
        )
        await scenario(cluster, registration)
        return cluster

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def register(cluster: Cluster, registration: Registration) -> None:
    await registration.register()


def test_registration_describes_the_broker_and_returns_its_epoch() -> None:
    cluster = play(register, joined())
    (asked,) = cluster.requests(BrokerRegistrationRequest)
    assert (asked.broker_id, asked.cluster_id, asked.incarnation_id) == (NODE, "a-cluster", b"i" * 16)
    assert [(one.name, one.host, one.port, one.security_protocol) for one in asked.listeners] == [
        ("PLAINTEXT", "localhost", 9092, 0)
    ]
    assert (asked.rack, asked.previous_broker_epoch) == ("b", 33)
    assert cluster.broker_epoch == EPOCH


@pytest.mark.parametrize(
    "answer", [NOBODY, not_joined(ErrorCode.DUPLICATE_BROKER_REGISTRATION), not_joined(ErrorCode.REQUEST_TIMED_OUT)]
)
def test_registration_is_retried_without_a_leader_and_until_the_last_session_expires(answer: Answer) -> None:
    cluster = play(register, answer, answer, joined())
    assert cluster.times == [0, 0.1, 0.2]
    assert cluster.broker_epoch == EPOCH


def test_a_duplicate_registration_is_retried_until_the_registration_timeout() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        with pytest.raises(KafkaError, match=f"registration of broker {NODE} was refused: "):
            await registration.register()
        assert trio.current_time() - cluster.asked[0][0] == pytest.approx(PATIENCE_S, abs=0.2)

    assert play(scenario, not_joined(ErrorCode.DUPLICATE_BROKER_REGISTRATION)).broker_epoch == -1


def test_a_broker_that_no_controller_answers_says_so_and_for_how_long_it_has_asked() -> None:
    async def scenario(_: Cluster, registration: Registration) -> None:
        with pytest.raises(KafkaError, match=rf"no active controller has answered for {PATIENCE_S:g} s"):
            await registration.register()

    play(scenario, NOBODY)


@pytest.mark.parametrize("answer", [InvalidRequestError("no"), not_joined(ErrorCode.INCONSISTENT_CLUSTER_ID)])
def test_an_error_that_is_not_retriable_is_raised_at_once(answer: Answer) -> None:
    async def scenario(_: Cluster, registration: Registration) -> None:
        with pytest.raises(KafkaError):
            await registration.register()

    assert len(play(scenario, answer).asked) == 1


def test_a_broker_stays_fenced_until_it_is_ready_to_lead() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(NODE, EPOCH, fenced=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.send_heartbeats)
            await trio.sleep(1)
            assert all(beat.want_fence for beat in cluster.requests(BrokerHeartbeatRequest))
            assert not registration.unfenced.is_set()
            registration.ready_to_lead()
            await trio.sleep(0.1)
            last = cluster.requests(BrokerHeartbeatRequest)[-1]
            assert (last.want_fence, last.broker_epoch, last.current_metadata_offset) == (False, EPOCH, 7)
            assert not registration.unfenced.is_set(), "its own image decides"
            cluster.knows(NODE, EPOCH, fenced=False)
            with trio.fail_after(1):
                await registration.unfenced.wait()
            nursery.cancel_scope.cancel()

    play(scenario, joined(), BrokerHeartbeatResponse())


def test_a_broker_that_is_ready_to_lead_does_not_wait_for_the_next_heartbeat() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(NODE, EPOCH, fenced=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.send_heartbeats)
            await trio.sleep(SOON_S / 2)
            registration.ready_to_lead()
            await trio.sleep(SOON_S / 4)
            assert [beat.want_fence for beat in cluster.requests(BrokerHeartbeatRequest)] == [True, False]
            nursery.cancel_scope.cancel()

    play(scenario, joined(), BrokerHeartbeatResponse())


def test_a_broker_whose_controller_has_a_full_disk_does_not_start_but_runs_on() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(NODE, EPOCH, fenced=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.send_heartbeats)
            await registration.unfenced.wait()
            cluster.knows(NODE, EPOCH, fenced=True)
            await trio.sleep(2 * INTERVAL_S)
            nursery.cancel_scope.cancel()
        assert cluster.requests(BrokerHeartbeatRequest)

    async def fenced(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        with pytest.raises(KafkaStorageError):
            await registration.send_heartbeats()

    async def unknown(cluster: Cluster, registration: Registration) -> None:
        with pytest.raises(KafkaStorageError):
            await registration.register()

    full = KafkaStorageError("full")
    play(scenario, joined(), full)
    play(fenced, joined(), full)
    play(unknown, full)


def test_a_broker_is_unfenced_with_the_response_to_the_heartbeat_that_requested_it() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(NODE, EPOCH, fenced=True)
        heartbeat = cluster.handle

        async def unfence(request: Any, version: int) -> Any:
            cluster.knows(NODE, EPOCH, fenced=False)
            return await heartbeat(request, version)

        cluster.handle = unfence  # type: ignore[method-assign]
        registration.ready_to_lead()
        with trio.move_on_after(INTERVAL_S / 2):
            await registration.send_heartbeats()
        assert registration.unfenced.is_set(), "the next heartbeat is an interval away"

    play(scenario, joined(), BrokerHeartbeatResponse())


def test_an_unfenced_broker_reports_contact_every_interval() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(NODE, EPOCH, fenced=False)
        began = trio.current_time()
        with trio.move_on_after(2.2):
            await registration.send_heartbeats()
        assert [round(at - began, 3) for at in cluster.contacts] == [0, 0.5, 1, 1.5, 2]

    play(scenario, joined())


def test_a_stale_broker_epoch_leads_to_a_new_registration_without_a_previous_epoch() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        with trio.move_on_after(0.1):
            await registration.send_heartbeats()

    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    cluster = play(scenario, joined(), stale, joined(EPOCH + 1), BrokerHeartbeatResponse())
    first, second = cluster.requests(BrokerRegistrationRequest)
    assert (first.previous_broker_epoch, second.previous_broker_epoch) == (33, -1)
    assert cluster.broker_epoch == EPOCH + 1


async def shut_down(cluster: Cluster, registration: Registration) -> None:
    await registration.register()
    cluster.asked.clear()
    await registration.controlled_shutdown()


def test_controlled_shutdown_ends_when_the_controller_allows_it() -> None:
    stay, go = BrokerHeartbeatResponse(), BrokerHeartbeatResponse(should_shut_down=True)
    cluster = play(shut_down, joined(), stay, stay, go)
    assert [(beat.want_shut_down, beat.broker_epoch) for _, beat in cluster.asked] == [(True, EPOCH)] * 3


def test_controlled_shutdown_asks_the_next_controller_when_one_is_gone() -> None:
    stay, go = BrokerHeartbeatResponse(), BrokerHeartbeatResponse(should_shut_down=True)
    cluster = play(shut_down, joined(), stay, NOBODY, NOBODY, stay, go)
    assert len(cluster.asked) == 5
    assert cluster.times[-1] < 0.2


def test_controlled_shutdown_without_a_controller_times_out() -> None:
    """After the fetch timeout of a voter (2 s by default) and two elections of 1 s."""
    cluster = play(shut_down, joined(), NOBODY)
    assert 3.9 < cluster.times[-1] < 4.1


def test_controlled_shutdown_lasts_through_the_election_of_a_controller() -> None:
    """Or the partitions that this broker leads would be without a leader until its session ends."""
    stay, go = BrokerHeartbeatResponse(), BrokerHeartbeatResponse(should_shut_down=True)
    election = [NOBODY] * round(3 / SOON_S)
    cluster = play(shut_down, joined(), stay, *election, stay, go)
    assert 3 < cluster.times[-1] < 3.2
    assert cluster.answers == [go]


def test_controlled_shutdown_that_is_never_allowed_times_out() -> None:
    cluster = play(shut_down, joined(), BrokerHeartbeatResponse())
    assert 7.9 < cluster.times[-1] < 8.1


@pytest.mark.parametrize(
    ("leaving", "fenced", "waits_s"), [(True, False, 1.0), (True, True, 0.1), (False, False, 0.1)]
)
def test_controlled_shutdown_waits_for_other_shutdowns(leaving: bool, fenced: bool, waits_s: float) -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(OTHER, EPOCH, fenced=fenced, leaving=leaving)
        began = trio.current_time()
        await registration.controlled_shutdown()
        assert trio.current_time() - began == pytest.approx(waits_s, abs=0.03)

    play(scenario, joined(), BrokerHeartbeatResponse(should_shut_down=True))


def test_a_broker_that_never_registered_sends_nothing() -> None:
    async def scenario(_: Cluster, registration: Registration) -> None:
        await registration.controlled_shutdown()

    assert play(scenario).asked == []


def test_a_broker_says_that_it_was_fenced_and_that_it_is_no_more() -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        registration.ready_to_lead()
        cluster.knows(NODE, EPOCH, fenced=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.send_heartbeats)
            await trio.sleep(1)
            for fenced in (False, True, False):
                cluster.knows(NODE, EPOCH, fenced=fenced)
                await trio.sleep(2 * INTERVAL_S)
            nursery.cancel_scope.cancel()

    with structlog.testing.capture_logs() as lines:
        play(scenario, joined(), BrokerHeartbeatResponse(is_fenced=True))
    assert [(line["event"], line["log_level"]) for line in lines] == [
        ("this broker is fenced", "warning"),
        ("this broker is unfenced again", "info"),
    ]


@pytest.mark.parametrize("is_alone", [True, False])
@pytest.mark.parametrize("change", ["fenced", "displaced", "removed"])
def test_a_broker_that_learns_that_it_is_not_unfenced_does_not_wait_for_an_interval(
    change: str, is_alone: bool
) -> None:
    async def scenario(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        registration.ready_to_lead()
        cluster.knows(NODE, EPOCH, fenced=False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.send_heartbeats)
            await registration.unfenced.wait()
            await trio.sleep(INTERVAL_S / 5)
            cluster.knows(OTHER, EPOCH, fenced=True)
            await trio.sleep(INTERVAL_S / 5)
            assert cluster.requests(BrokerHeartbeatRequest) == [], "that is another one"
            if change == "removed":
                del cluster.image.brokers[NODE]
                cluster.advance()
            else:
                cluster.knows(NODE, EPOCH + (change == "displaced"), fenced=change == "fenced")
            await trio.sleep(SOON_S / 2)
            assert len(cluster.requests(BrokerHeartbeatRequest)) == 1
            await trio.sleep(2.1 * SOON_S)
            assert len(cluster.requests(BrokerHeartbeatRequest)) == 3, "no more often than before"
            nursery.cancel_scope.cancel()

    play(scenario, joined(), BrokerHeartbeatResponse(is_fenced=True), is_alone=is_alone)
