"""`AutoCommits`: commits the positions of a consumer by itself, from time to time and before they are lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random

import anyio

from minikafka.client.connections.retry_backoff import Backoff
from minikafka.client.consumer.fetch_state import Fetcher
from minikafka.client.consumer.offset_commits import OffsetCommits
from minikafka.client.escaped_log import escaped
from minikafka.client.groups.group_session import GroupSession
from minikafka.client.options import ConsumerOptions
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.names import TopicPartition

_logger = escaped(logging.getLogger("minikafka.client.consumer"))
_TELLING_FAILURES = 2
"""A warning is logged at this number of failed auto-commits in a row: one retriable failure is usual in a failover."""


class AutoCommits:
    """Commits with `enable_auto_commit`."""

    def __init__(self, commits: OffsetCommits, fetcher: Fetcher, options: ConsumerOptions, random: Random) -> None:
        self._commits = commits
        self._fetcher = fetcher
        self._options = options
        self._random = random

    async def run(self, group_of: Callable[[], GroupSession | None]) -> None:
        """Commit processed records every auto_commit_interval_ms, until cancelled; sooner after a retriable error.

        Positions that have not changed are committed as well, as by Kafka's client. Offsets of a group without members
        expire `offsets.retention.minutes` after the commit, and a commit without a response may take effect after a
        later one and undo it.
        """
        interval_s = max(self._options.auto_commit_interval_ms, 1) / 1000
        backoff = Backoff(self._options.retry_backoff_ms, self._options.retry_backoff_max_ms, self._random)
        failures = 0
        while True:
            await anyio.sleep(min(interval_s, backoff.delay_ms(failures - 1) / 1000) if failures else interval_s)
            group, error = group_of(), None
            if group is None or group.member[0] >= 0:
                error = await self.commit(list(self._fetcher.states), group, processed_only=True, retried_ms=0)
            failures = failures + 1 if error is not None and error.retriable else 0
            if error is not None and failures in (0, _TELLING_FAILURES):
                _logger.warning("auto-commit failed: group %r: %s", self._options.group_id, error)

    async def commit(
        self,
        partitions: Sequence[TopicPartition],
        group: GroupSession | None,
        *,
        processed_only: bool,
        retried_ms: float | None,
    ) -> KafkaError | None:
        """Commit the positions of some partitions; return the error, or None."""
        positions = self._fetcher.positions(processed_only=processed_only)
        positions |= self._fetcher.left_positions(processed_only=processed_only)
        known = {tp: positions[tp] for tp in partitions if tp in positions}
        try:
            await self._commits.commit(known, group, of_positions=True, retried_ms=retried_ms)
        except KafkaError as error:
            return error
        return None

    async def commit_before_losing(
        self,
        partitions: Sequence[TopicPartition],
        group: GroupSession | None,
        *,
        processed_only: bool,
        retried_ms: float | None = None,
    ) -> None:
        """Commit partitions a last time, as no later commit includes them; log an error."""
        error = await self.commit(partitions, group, processed_only=processed_only, retried_ms=retried_ms)
        if error is not None:
            _logger.warning("last auto-commit of partitions failed: group %r: %s", self._options.group_id, error)
