"""`AlterPartitionManager`: asks the controller to change the ISR of partitions that this node leads (KIP-497).

    a follower caught up, or lags ──► proposals of all partitions ──AlterPartition──► controller ──metadata──► become

A follower leaves the ISR only by a check of all partitions, twice per `replica.lag.time.max.ms`, as in Kafka.
Otherwise two followers that keep fetching but lag, while nothing is committed, would replace each other without a
pause.

One request is in flight at a time. Its response only decides whether to ask again; the change itself arrives in the
metadata log. Until then the leader uses the maximal ISR (`follower_progress.py`). Uses trio for the task.
Source: Kafka's `AlterPartitionManager`.
"""

from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Any

import structlog
import trio

from minikafka.broker.partitions.follower_progress import IsrProposal
from minikafka.broker.partitions.partition import Partition
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

log = structlog.get_logger("minikafka.isr")

VERSION = 3
RETRY_S = 0.1
PARTITIONS_AT_ONCE = 1000
"""The number of partitions that are looked at before other tasks run."""
RESPONSE_TIMEOUT_S = 10
REJECTED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST)
"""Errors after which the partition keeps the committed ISR and may propose a change again."""
OUTDATED = (
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""Errors after which a newer state of the partition arrives in the metadata log and ends the proposal; no retry."""

SendToController = Callable[[AlterPartitionRequest, int], Awaitable[Any]]
Key = tuple[bytes, int]


class AlterPartitionManager:
    """Sends AlterPartition for all partitions of a node.

    Args:
        node_id: This node.
        broker_epoch: Returns the epoch of this node's registration.
        partitions: All replicas of the node.
        send: `Controller.handle`.
        lag_ms_max: `replica.lag.time.max.ms`; out-of-sync replicas are searched for twice in this time.

    Attributes:
        shrinks, expands: How many ISRs have shrunk, and grown, by changes that the controller has accepted.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        partitions: Iterable[Partition],
        send: SendToController,
        lag_ms_max: int,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._send = send
        self._check_s = lag_ms_max / 2 / 1000
        self._candidates: dict[Partition, bool] = {}
        """The partitions to look at, and whether members may leave the ISR."""
        self._pending: dict[Key, tuple[Partition, IsrProposal]] = {}
        self._growth: dict[Key, int] = {}
        """The number of members that each pending proposal adds to the ISR; negative if it removes more."""
        self._wakeup = trio.Event()
        self.shrinks = self.expands = 0

    def request_change(self, partition: Partition) -> None:
        """Have `run` check whether the ISR of this partition has to grow."""
        self._candidates.setdefault(partition, False)
        self._wakeup.set()

    async def run(self) -> None:
        """Propose and send changes until cancelled."""
        next_check = trio.current_time() + self._check_s
        while True:
            with trio.move_on_at(next_check):
                await self._wakeup.wait()
            self._wakeup = trio.Event()
            if trio.current_time() >= next_check:
                next_check = trio.current_time() + self._check_s
                self._candidates = dict.fromkeys(self._partitions, True)
            await self._propose()
            if self._pending and not await self._send_pending():
                await trio.sleep(RETRY_S)
                self._wakeup.set()

    async def _propose(self) -> None:
        wanted, self._candidates = self._candidates, {}
        for number, (partition, may_shrink) in enumerate(wanted.items(), 1):
            if number % PARTITIONS_AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
            proposal = partition.propose_isr_change(may_shrink=may_shrink)
            if proposal is not None:
                key = partition.topic_id, partition.topic_partition.partition
                self._pending[key] = partition, proposal
                isr = () if partition.leader_state is None else partition.leader_state.isr
                self._growth[key] = len(proposal.node_ids) - len(isr)
                log.debug("isr change proposed", partition=str(partition), isr=isr, proposed=proposal.node_ids)

    async def _send_pending(self) -> bool:
        """Send all pending proposals; returns whether none has to be sent again."""
        pending = {
            key: (partition, proposal)
            for key, (partition, proposal) in self._pending.items()
            if partition.leader_state is not None and partition.leader_state.pending is proposal
        }
        self._growth = {key: self._growth[key] for key in pending}
        self._pending = pending
        if not pending:
            return True
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=_topics(pending)
        )
        try:
            with trio.move_on_after(RESPONSE_TIMEOUT_S) as scope:
                response: AlterPartitionResponse = await self._send(request, VERSION)
        except KafkaError as error:
            log.info("alter partition request failed", error=f"{error!r}")
            return False
        if scope.cancelled_caught or response.error_code:
            return False
        return self._handle_response(response)

    def _handle_response(self, response: AlterPartitionResponse) -> bool:
        settled = True
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                if key not in self._pending:
                    continue
                partition, proposal = self._pending[key]
                if answer.error_code in REJECTED:
                    error = ErrorCode(answer.error_code).name
                    log.info("isr change rejected", partition=str(partition), error=error)
                    partition.isr_change_rejected(proposal)
                    self._candidates[partition] = True
                    settled = False  # Wait before checking whether the change is still due.
                elif answer.error_code and answer.error_code not in OUTDATED:
                    settled = False
                    continue
                elif not answer.error_code:
                    self.shrinks += self._growth[key] < 0
                    self.expands += self._growth[key] > 0
                del self._pending[key]
        return settled


def _topics(pending: dict[Key, tuple[Partition, IsrProposal]]) -> list[RequestTopicData]:
    topics: list[RequestTopicData] = []
    for topic_id, keys in groupby(sorted(pending), lambda key: key[0]):
        topic = RequestTopicData(topic_id=topic_id)
        for key in keys:
            proposal = pending[key][1]
            isr = [BrokerState(broker_id=node_id, broker_epoch=epoch) for node_id, epoch in proposal.isr]
            topic.partitions.append(
                RequestPartitionData(
                    partition_index=key[1],
                    leader_epoch=proposal.leader_epoch,
                    new_isr_with_epochs=isr,
                    partition_epoch=proposal.partition_epoch,
                )
            )
        topics.append(topic)
    return topics
