"""What the leader of the quorum answers about a voter is final: it has waited itself, or cannot reach it."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.scripted_cluster import ScriptedCluster
from trio.testing import MockClock

from minikafka.client import Admin
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse


@pytest.mark.parametrize(
    ("code", "times"), [(ErrorCode.REQUEST_TIMED_OUT, 1), (ErrorCode.DUPLICATE_VOTER, 1), (ErrorCode.NOT_CONTROLLER, 3)]
)
def test_a_voter_that_is_not_ready_is_asked_about_once(code: ErrorCode, times: int) -> None:
    cluster, asked = ScriptedCluster(t=1), list[Any]()

    def answer(request: AddRaftVoterRequest, version: int) -> AddRaftVoterResponse:
        asked.append(request)
        is_known = len(asked) == 3 and code == ErrorCode.NOT_CONTROLLER
        return AddRaftVoterResponse(error_code=ErrorCode.NONE if is_known else code, error_message="not ready")

    cluster.brokers[0].handlers[AddRaftVoterRequest] = answer

    async def main() -> str:
        async with Admin("a:1", seams=cluster.seams()) as admin:
            try:
                await admin.add_raft_voter(4, "A" * 21 + "Q", {"CONTROLLER": "a:2"})
            except KafkaError as error:
                return str(error)
            return ""

    said = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert said == ("" if times == 3 else "adding voter 4: not ready")
    assert len(asked) == times
