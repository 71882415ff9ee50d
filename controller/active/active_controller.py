"""The active controller: passes requests to decisions, and starts fencing, leader elections and balancing on timers.

An `ActiveController` exists while this node leads the quorum and has applied everything that earlier leaders committed.
It owns the queue of its leadership term and the broker sessions. A broker without contact for a session timeout is
fenced, sooner if its connection was reset; but not the broker of this process, which runs as long as its controller. A
heartbeat counts as contact when it arrives, not when its turn in the queue comes (KAFKA-15019). A controller that was
itself delayed reads waiting heartbeats before it fences. Trio: timers.
"""

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from random import Random
from typing import Any

import structlog
import trio

from minikafka.controller.active.leadership_term import LeadershipTerm, Outcome, TermEnded
from minikafka.controller.decisions import broker_fencing, delegation_tokens, leader_balancing
from minikafka.controller.decisions.bootstrap_records import bootstrap
from minikafka.controller.decisions.broker_sessions import BrokerSessions
from minikafka.controller.decisions.decision import Context, Decision
from minikafka.controller.decisions.request_table import IN_STEPS, elements_decided_about
from minikafka.controller.metadata.cluster_ids import new_cluster_id
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import BrokerChange, Record
from minikafka.controller.quotas.changes import quota_changes, quotas_now
from minikafka.controller.quotas.mutations import MutationQuota, MutationQuotas
from minikafka.controller.quotas.rates import Samples
from minikafka.controller.security.access import UNRESTRICTED, Access
from minikafka.controller.security.token_secrets import secret_of
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.errors import KafkaError, UnsupportedVersionError
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.protocol.messages.broker_registration import BrokerRegistrationRequest
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.protocol.messages.unregister_broker import UnregisterBrokerRequest
from minikafka.storage.steps import at_once, in_steps

__all__ = ["ActiveController"]

log = structlog.get_logger("minikafka.controller")

LATE_MS = 200
"""A timer that fires this much late means that the process was stalled: heartbeats may be waiting unread."""
LEADERLESS_CHECK_S = 5.0
KNOWN_TO_ALL_MS_MAX = 30_000
PeriodicDecision = Callable[[Image, Context], Generator[None, None, Decision[bool]]]


class ActiveController:
    """The controller that decides, on the node that leads the quorum.

    Args:
        term: the leadership term, which has the queue.
        image: the committed image of this node.
        static: this node's settings.
        random: the source of ids and replica placement.
        log_levels: level by logger of this node.
        controllers: returns the ids of the voters.
        own_epoch: returns the broker epoch of this process; -1 before it is registered as a broker.
    """

    def __init__(
        self,
        term: LeadershipTerm,
        image: Image,
        static: StaticSettings,
        random: Random,
        log_levels: dict[str, str],
        controllers: Callable[[], Collection[int]],
        own_epoch: Callable[[], int],
    ) -> None:
        self.term = term
        self.sessions = BrokerSessions(static.number("broker.session.timeout.ms"))
        self._image = image
        self._static = static
        self._random = random
        self._log_levels = log_levels
        self._controllers = controllers
        self._own_epoch = own_epoch
        self._sessions_changed = trio.Event()
        window_ms = static.number("controller.quota.window.size.seconds") * 1000
        self._mutations = MutationQuotas(Samples(static.number("controller.quota.window.num"), window_ms))
        at_once(quotas_now(image.quotas, self._mutations.set))
        epochs = {node_id: broker.epoch for node_id, broker in image.brokers.items()}
        self.sessions.reset(_now_ms(), epochs, term.start_offset)

    async def run(self) -> None:
        """Decide, fence and balance until cancelled."""
        static = self._static
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.term.run)
            nursery.start_soon(self._fence_expired_brokers)
            nursery.start_soon(self._repeat, LEADERLESS_CHECK_S, leader_balancing.electing_leaderless)
            if secret_of(static) is not None:
                interval_s = static.number("delegation.token.expiry.check.interval.ms") / 1000
                nursery.start_soon(self._repeat, interval_s, delegation_tokens.ending, 0)
            if static.value("auto.leader.rebalance.enable"):
                interval_s = float(static.number("leader.imbalance.check.interval.seconds"))
                nursery.start_soon(self._repeat, interval_s, leader_balancing.electing_preferred)

    async def create_cluster(self, cluster_id: str | None) -> None:
        """Write the first records of a new cluster."""
        named = cluster_id or new_cluster_id(self._random)
        try:
            await self.term.submit(lambda image: Decision(bootstrap(named, self._static), None))
        except TermEnded:
            await trio.sleep_forever()  # until the end of the term cancels this task
        log.info("cluster created", cluster_id=named)

    # -- requests ------------------------------------------------------------------------------------------------

    async def handle(self, request: Any, version: int, access: Access = UNRESTRICTED) -> Outcome[Any]:
        """Decide about a request; return once the decision is committed and applied on this node. CreateTopics and
        CreatePartitions also wait until all live brokers have applied it, at most for the request's timeout.

        Args:
            request: a request that changes metadata, as forwarded by a node (`decisions/forwarding_rules.py`).
            version: the version of the request.
            access: what the client of the request may do.

        Raises:
            KafkaError: the request fails as a whole.
            TermEnded: the term ended first.
        """
        decide = IN_STEPS.get(type(request))
        if decide is None:
            raise UnsupportedVersionError(f"the controller does not handle {type(request).__name__}")
        if isinstance(request, BrokerHeartbeatRequest):
            self.contact(request.broker_id, request.broker_epoch, request.current_metadata_offset)
        quota = self._mutation_quota(request, version, access)
        outcome = await self.term.submit(
            lambda image: decide(image, request, self._context(version, access, quota)),
            elements_decided_about(request),
        )
        self._update_sessions(request, outcome)
        if isinstance(request, CreateTopicsRequest | CreatePartitionsRequest) and outcome.decision.records:
            with trio.move_on_after(max(0, min(request.timeout_ms, KNOWN_TO_ALL_MS_MAX)) / 1000):
                await self._applied_by_all(outcome.end_offset)
        if quota is not None:
            outcome.reply.throttle_time_ms = quota.left_ms(_now_ms())
        return outcome

    async def apply_quotas(self, records: Sequence[Record]) -> None:
        """Take the quotas that committed records change."""
        await in_steps(quota_changes(records, self._mutations.set))

    def _mutation_quota(self, request: Any, version: int, access: Access) -> MutationQuota | None:
        """What the client of a request may create and delete; None without a limit. A node itself has none."""
        if access == UNRESTRICTED:
            return None
        return self._mutations.of(request, version, access.principal.name, access.client_id, _now_ms())

    def _context(
        self, version: int = 0, access: Access = UNRESTRICTED, mutations: MutationQuota | None = None
    ) -> Context:
        return Context(
            self._static,
            self._random,
            version,
            self._log_levels,
            self.sessions,
            _now_ms(),
            self.term.now_ms(),
            forwarded=True,
            controllers=self._controllers(),
            own_epoch=self._own_epoch(),
            access=access,
            mutations=mutations,
        )

    def _update_sessions(self, request: Any, outcome: Outcome[Any]) -> None:
        if not outcome.decision.records:
            return
        if isinstance(request, BrokerRegistrationRequest | BrokerHeartbeatRequest):
            broker = self._image.brokers.get(request.broker_id)
            if broker is not None:
                self.sessions.wrote(request.broker_id, broker.epoch, _now_ms(), outcome.end_offset)
        elif isinstance(request, UnregisterBrokerRequest):
            self.sessions.forget(request.broker_id)
        self._wake()

    async def _applied_by_all(self, offset: int) -> None:
        while any(self.sessions.applied(node_id) < offset for node_id in self._image.live_brokers()):
            await self._sessions_changed.wait()

    # -- broker sessions -----------------------------------------------------------------------------------------

    def contact(self, node_id: int, epoch: int, applied_offset: int) -> bool:
        """Record that a broker made contact and has applied the metadata log before `applied_offset`.

        Returns whether the broker was live until then. Otherwise it is fenced, or its fencing may have begun.
        """
        broker = self._image.brokers.get(node_id)
        if broker is None or broker.epoch != epoch:
            return False
        before, now_ms = self.sessions.applied(node_id), _now_ms()
        was_live = not broker.fenced and self.sessions.is_live(node_id, epoch, now_ms)
        self.sessions.contact(node_id, epoch, now_ms, applied_offset)
        if applied_offset > before:
            self._wake()
        return was_live

    def contacted(self, node_id: int, body: Mapping[str, Any]) -> bool:
        """Handle a report of contact by another node, as `contact`; a malformed one counts as none."""
        match body:
            case {"epoch": int() as epoch, "offset": int() as offset}:
                return self.contact(node_id, epoch, offset)
        return False

    def lost_connection(self, node_id: int, lost_at: float) -> None:
        """Shorten the session of a node whose connection ended at `lost_at`, in seconds of trio's clock."""
        self.sessions.lost_connection(node_id, int(lost_at * 1000))
        self._wake()

    def _wake(self) -> None:
        self._sessions_changed.set()
        self._sessions_changed = trio.Event()

    async def _fence_expired_brokers(self) -> None:
        while True:
            deadline_ms = self.sessions.deadline_ms(self._watched())
            until = trio.current_time() + 3600 if deadline_ms is None else deadline_ms / 1000
            changed = self._sessions_changed
            with trio.move_on_at(until):
                await changed.wait()
                continue
            if trio.current_time() - until > LATE_MS / 1000:
                await trio.sleep(LATE_MS / 1000)
            for node_id in self.sessions.expired(_now_ms()):
                if node_id in self._watched():
                    await self._fence(node_id)

    def _watched(self) -> list[int]:
        """The live brokers that are fenced if they do not make contact."""
        own = self._static.node_id, self._own_epoch()
        return [one for one in self._image.live_brokers() if (one, self._image.brokers[one].epoch) != own]

    async def _fence(self, node_id: int) -> None:
        def deciding(image: Image, context: Context) -> Generator[None, None, Decision[bool]]:
            # There is no record if the broker made contact while this decision was queued.
            decision = yield from broker_fencing.deciding(image, node_id, context)
            for record in decision.records[:1]:
                if isinstance(record, BrokerChange):
                    log.warning("broker fenced", broker=node_id, epoch=record.epoch, reason="session timed out")
            return decision

        await self._decide_all(deciding)
        self._wake()

    async def _repeat(self, interval_s: float, deciding: PeriodicDecision, brokers_min: int = 2) -> None:
        while True:
            await trio.sleep(interval_s)
            while len(self._image.brokers) < brokers_min:  # There is nothing to balance: do not wake an idle node.
                await self._sessions_changed.wait()
            await self._decide_all(deciding)

    async def _decide_all(self, deciding: PeriodicDecision) -> None:
        """Decide until there is no more to do. An error is logged, and the decision is retried later."""
        more = True
        while more:
            try:
                outcome = await self.term.submit(lambda image: deciding(image, self._context()))
            except TermEnded:
                await trio.sleep_forever()  # until the end of the term cancels this task
            except KafkaError as error:
                log.error("periodic decision failed", error=str(error))
                await trio.sleep(1)
                return
            more = outcome.reply


def _now_ms() -> int:
    """The time in milliseconds of trio's clock, which is monotonic."""
    return int(trio.current_time() * 1000)
