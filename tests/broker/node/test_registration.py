"""A broker joins, is heard, is forgotten, and goes; the cluster is what the test says it is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing

from minikafka.broker.node.registration import Registration
from minikafka.broker.settings.node_config import load_config
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerRecord, Endpoint
from minikafka.protocol.errors import ErrorCode, InvalidRequestError, KafkaError, NotControllerError
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

NODE, OTHER, EPOCH = 1, 2, 40
ENDPOINT: Endpoint = ("PLAINTEXT", "localhost", 9092, "PLAINTEXT")
INTERVAL_S, PATIENCE_S = 0.5, 10
NOBODY = NotControllerError("nobody leads")

Answer = BrokerRegistrationResponse | BrokerHeartbeatResponse | KafkaError


def joined(epoch: int = EPOCH) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(broker_epoch=epoch)


def not_joined(code: ErrorCode) -> BrokerRegistrationResponse:
    return BrokerRegistrationResponse(error_code=code)


class Cluster:
    """The controller's face: answers as it is told to, the last answer again and again, and notes what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.cluster_id = "a-cluster"
        self.image = Image()
        self.broker_epoch = -1
        self.offset = 7
        self.answers = list(answers)
        self.asked: list[tuple[float, Any]] = []
        self.heard: list[float] = []

    async def handle(self, request: Any, version: int) -> Any:
        self.asked.append((trio.current_time(), request))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    async def report_contact(self) -> None:
        self.heard.append(trio.current_time())

    def knows(self, node_id: int, epoch: int, *, fenced: bool, leaving: bool = False) -> None:
        broker = BrokerRecord(node_id, epoch, bytes(16), (ENDPOINT,), None, fenced)
        self.image.brokers[node_id] = replace(broker, in_controlled_shutdown=leaving)

    def requests(self, kind: type) -> list[Any]:
        return [request for _, request in self.asked if isinstance(request, kind)]

    @property
    def times(self) -> list[float]:
        return [round(at - self.asked[0][0], 3) for at, _ in self.asked]


def play(story: Callable[[Cluster, Registration], Awaitable[None]], *answers: Answer) -> Cluster:
    """Run a story on a clock that jumps."""
    given = {"node.id": str(NODE), "process.roles": "broker", "controller.quorum.voters": "9@localhost:9999"}
    given |= {"listeners": "PLAINTEXT://localhost:9092", "controller.listener.names": "CONTROLLER"}
    given |= {"broker.rack": "b", "broker.heartbeat.interval.ms": str(round(INTERVAL_S * 1000))}
    given |= {"broker.session.timeout.ms": "2000", "initial.broker.registration.timeout.ms": str(PATIENCE_S * 1000)}
    config = load_config(settings=given)

    async def main() -> Cluster:
        cluster = Cluster(*answers)
        registration = Registration(
            config,
            cluster,  # type: ignore[arg-type]
            incarnation_id=b"i" * 16,
            endpoints=[ENDPOINT],
            previous_broker_epoch=33,
        )
        await story(cluster, registration)
        return cluster

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def register(cluster: Cluster, registration: Registration) -> None:
    await registration.register()


def test_it_says_who_it_is_and_takes_its_epoch() -> None:
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
def test_it_asks_again_while_nobody_leads_or_its_last_life_is_not_over(answer: Answer) -> None:
    cluster = play(register, answer, answer, joined())
    assert cluster.times == [0, 0.1, 0.2]
    assert cluster.broker_epoch == EPOCH


def test_another_process_with_its_id_is_not_waited_for_without_end() -> None:
    async def story(cluster: Cluster, registration: Registration) -> None:
        with pytest.raises(KafkaError, match=f"the cluster does not take broker {NODE}: "):
            await registration.register()
        assert trio.current_time() - cluster.asked[0][0] == pytest.approx(PATIENCE_S, abs=0.2)

    assert play(story, not_joined(ErrorCode.DUPLICATE_BROKER_REGISTRATION)).broker_epoch == -1


@pytest.mark.parametrize("answer", [InvalidRequestError("no"), not_joined(ErrorCode.INCONSISTENT_CLUSTER_ID)])
def test_a_refusal_for_good_ends_it_at_once(answer: Answer) -> None:
    async def story(_: Cluster, registration: Registration) -> None:
        with pytest.raises(KafkaError):
            await registration.register()

    assert len(play(story, answer).asked) == 1


def test_it_stays_fenced_until_it_can_lead() -> None:
    async def story(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(NODE, EPOCH, fenced=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.beat)
            await trio.sleep(1)
            assert all(beat.want_fence for beat in cluster.requests(BrokerHeartbeatRequest))
            assert not registration.unfenced.is_set()
            registration.serve()
            await trio.sleep(0.1)
            last = cluster.requests(BrokerHeartbeatRequest)[-1]
            assert (last.want_fence, last.broker_epoch, last.current_metadata_offset) == (False, EPOCH, 7)
            assert not registration.unfenced.is_set(), "its own image has to say so"
            cluster.knows(NODE, EPOCH, fenced=False)
            with trio.fail_after(1):
                await registration.unfenced.wait()
            nursery.cancel_scope.cancel()

    play(story, joined(), BrokerHeartbeatResponse())


def test_alive_it_is_heard_every_interval() -> None:
    async def story(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(NODE, EPOCH, fenced=False)
        began = trio.current_time()
        with trio.move_on_after(2.2):
            await registration.beat()
        assert [round(at - began, 3) for at in cluster.heard] == [0, 0.5, 1, 1.5, 2]

    play(story, joined())


def test_who_was_forgotten_registers_again_as_one_that_crashed() -> None:
    async def story(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        with trio.move_on_after(0.1):
            await registration.beat()

    stale = BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
    cluster = play(story, joined(), stale, joined(EPOCH + 1), BrokerHeartbeatResponse())
    first, second = cluster.requests(BrokerRegistrationRequest)
    assert (first.previous_broker_epoch, second.previous_broker_epoch) == (33, -1)
    assert cluster.broker_epoch == EPOCH + 1


async def leave(cluster: Cluster, registration: Registration) -> None:
    await registration.register()
    cluster.asked.clear()
    await registration.leave()


def test_it_goes_when_it_leads_nothing_any_more() -> None:
    stay, go = BrokerHeartbeatResponse(), BrokerHeartbeatResponse(should_shut_down=True)
    cluster = play(leave, joined(), stay, stay, go)
    assert [(beat.want_shut_down, beat.broker_epoch) for _, beat in cluster.asked] == [(True, EPOCH)] * 3


def test_with_nobody_to_tell_it_goes_without() -> None:
    cluster = play(leave, joined(), NOBODY)
    assert 1.4 < cluster.times[-1] < 1.6


def test_a_cluster_that_never_lets_it_go_holds_it_up_for_seconds_only() -> None:
    cluster = play(leave, joined(), BrokerHeartbeatResponse())
    assert 7.9 < cluster.times[-1] < 8.1


@pytest.mark.parametrize(
    ("leaving", "fenced", "lingers_s"), [(True, False, 1.0), (True, True, 0.1), (False, False, 0.1)]
)
def test_others_that_are_leaving_too_have_its_vote_for_a_moment(leaving: bool, fenced: bool, lingers_s: float) -> None:
    async def story(cluster: Cluster, registration: Registration) -> None:
        await registration.register()
        cluster.knows(OTHER, EPOCH, fenced=fenced, leaving=leaving)
        began = trio.current_time()
        await registration.leave()
        assert trio.current_time() - began == pytest.approx(lingers_s, abs=0.03)

    play(story, joined(), BrokerHeartbeatResponse(should_shut_down=True))


def test_who_never_registered_just_goes() -> None:
    async def story(_: Cluster, registration: Registration) -> None:
        await registration.leave()

    assert play(story).asked == []
