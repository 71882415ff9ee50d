"""Has the controller change who is in sync: AlterPartition, for all partitions that this node leads (KIP-497).

    a follower caught up, or lags ──► proposals of all partitions ──AlterPartition──► controller ──metadata──► become

One request is under way at a time. What it answers is only whether to ask again: the change itself comes as everything
does, by the metadata log. Until then the partition counts with the larger of both sets (`replicas.py`). Trio is
imported for the task.
"""

from collections.abc import Awaitable, Callable, Iterable
from itertools import groupby
from typing import Any

import structlog
import trio

from minikafka.broker.partitions.follower_progress import Proposal
from minikafka.broker.partitions.partition import Partition
from minikafka.protocol.errors import ErrorCode, KafkaError
from minikafka.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)

log = structlog.get_logger("minikafka.in_sync")

VERSION = 3
RETRY_S = 0.1
ANSWER_TIMEOUT_S = 10
REFUSED = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INVALID_REQUEST)
"""Nothing has changed: the partition goes on with what is committed, and may ask for something else."""
OUTDATED = (
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
)
"""The metadata log has news of the partition that end this proposal when they come; asking again is of no use."""

Ask = Callable[[AlterPartitionRequest, int], Awaitable[Any]]
Key = tuple[bytes, int]


class InSync:
    """See above.

    Args:
        node_id: This node.
        broker_epoch: Of its registration.
        partitions: All replicas of the node.
        ask: `Controller.handle`.
        lag_ms_max: `replica.lag.time.max.ms`; laggards are looked for twice in this time.
    """

    def __init__(
        self,
        node_id: int,
        broker_epoch: Callable[[], int],
        partitions: Iterable[Partition],
        ask: Ask,
        lag_ms_max: int,
    ) -> None:
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._partitions = partitions
        self._ask = ask
        self._check_s = lag_ms_max / 2 / 1000
        self._wanted: dict[Partition, None] = {}
        self._asked: dict[Key, tuple[Partition, Proposal]] = {}
        self._news = trio.Event()

    def wanted(self, partition: Partition) -> None:
        """A follower of this partition may come in."""
        self._wanted[partition] = None
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        next_check = trio.current_time() + self._check_s
        while True:
            with trio.move_on_at(next_check):
                await self._news.wait()
            self._news = trio.Event()
            if trio.current_time() >= next_check:
                next_check = trio.current_time() + self._check_s
                self._wanted = dict.fromkeys(self._partitions)
            self._propose()
            if self._asked and not await self._ask_controller():
                await trio.sleep(RETRY_S)
                self._news.set()

    def _propose(self) -> None:
        wanted, self._wanted = self._wanted, {}
        for partition in wanted:
            proposal = partition.propose_isr()
            if proposal is not None:
                self._asked[partition.topic_id, partition.topic_partition.partition] = partition, proposal
                isr = () if partition.replicas is None else partition.replicas.isr
                log.info("in-sync replicas", partition=str(partition), now=isr, wanted=proposal.node_ids)

    async def _ask_controller(self) -> bool:
        """Ask for everything that is pending; whether all of it is settled."""
        pending = {
            key: (partition, proposal)
            for key, (partition, proposal) in self._asked.items()
            if partition.replicas is not None and partition.replicas.pending is proposal
        }
        self._asked = pending
        if not pending:
            return True
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), topics=_topics(pending)
        )
        try:
            with trio.move_on_after(ANSWER_TIMEOUT_S) as scope:
                response: AlterPartitionResponse = await self._ask(request, VERSION)
        except KafkaError as error:
            log.info("the controller could not be asked for in-sync replicas", reason=f"{error!r}")
            return False
        if scope.cancelled_caught or response.error_code:
            return False
        return self._settle(response)

    def _settle(self, response: AlterPartitionResponse) -> bool:
        settled = True
        for topic in response.topics:
            for answer in topic.partitions:
                key = (topic.topic_id, answer.partition_index)
                if key not in self._asked:
                    continue
                partition, proposal = self._asked[key]
                if answer.error_code in REFUSED:
                    why = ErrorCode(answer.error_code).name
                    log.info("in-sync replicas refused", partition=str(partition), error=why)
                    partition.isr_refused(proposal)
                    self._wanted[partition] = None
                    settled = False  # A pause, before it is looked whether it is still wanted.
                elif answer.error_code and answer.error_code not in OUTDATED:
                    settled = False
                    continue
                del self._asked[key]
        return settled


def _topics(pending: dict[Key, tuple[Partition, Proposal]]) -> list[RequestTopicData]:
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
