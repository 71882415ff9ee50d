"""A heartbeat that is cancelled may have been answered: the coordinator sends an assignment only once."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import anyio

from minikafka.client.groups.consumer_session import ConsumerGroup
from minikafka.client.options import ConsumerOptions, make
from minikafka.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class Group(ConsumerGroup):
    """A session whose first heartbeat is answered at once, and the second one never."""

    def __init__(self) -> None:
        options = make(ConsumerOptions, {"group_id": "g", "group_protocol": "consumer"}, "Consumer")
        member: Any = SimpleNamespace(
            group_pattern=None, is_poll_overdue=lambda: False, subscribed_topics=self._topics_of,
            epoch_changed=lambda before, now: None,
        )  # fmt: skip
        seams: Any = SimpleNamespace(random=random.Random(1))
        cluster: Any = None
        super().__init__(cluster, options, member, seams)
        self.sent: list[ConsumerGroupHeartbeatRequest] = []

    async def _topics_of(self) -> list[str]:
        return ["t"]

    async def _request(self, request: Any, timeout_ms: float) -> Any:
        self.sent.append(request)
        if len(self.sent) == 2:
            await anyio.sleep_forever()
        return ConsumerGroupHeartbeatResponse(member_epoch=len(self.sent), heartbeat_interval_ms=9)


def test_after_a_cancelled_heartbeat_the_next_one_names_everything() -> None:
    async def story() -> Group:
        group = Group()
        await group._beat()
        assert not group.membership.must_acknowledge
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(group._beat)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert group.membership.must_acknowledge
        await group._beat()
        return group

    sent = anyio.run(story).sent
    assert [one.member_epoch for one in sent] == [0, 1, 1]
    assert [one.subscribed_topic_names for one in sent] == [["t"], None, ["t"]]
    assert [one.topic_partitions for one in sent] == [[], None, []]
