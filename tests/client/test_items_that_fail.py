"""An `Admin` asks again for those items of a request that fail with an error that passes, and for no others."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from support.fake_network import FakeNetwork
from trio.testing import MockClock

from minikafka.client import Admin, NewTopic
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse

NAMES = ["made", "passes", "late", "refused"]
ANSWERS = {"late": ErrorCode.REQUEST_TIMED_OUT, "refused": ErrorCode.INVALID_CONFIG}


@pytest.mark.parametrize(
    ("passing", "attempts"),
    [(ErrorCode.NOT_CONTROLLER, 0), (ErrorCode.NOT_CONTROLLER, 3), (ErrorCode.THROTTLING_QUOTA_EXCEEDED, 1)],
)
def test_only_what_has_failed_is_asked_again(passing: ErrorCode, attempts: int) -> None:
    asked: list[list[str]] = []

    def answer(request: Any, version: int) -> CreateTopicsResponse:
        asked.append([one.name for one in request.topics])
        codes = {**ANSWERS, "passes": passing if len(asked) <= attempts else ErrorCode.NONE}
        topics = [
            CreatableTopicResult(name=one.name, error_code=codes.get(one.name, ErrorCode.NONE), error_message=None)
            for one in request.topics
        ]
        return CreateTopicsResponse(topics=topics)

    async def main() -> dict[str, Any]:
        network = FakeNetwork({})
        network.broker("a", 1, {CreateTopicsRequest: answer})
        async with Admin("a:1", seams=network.seams()) as admin:
            return await admin.create_topics(map(NewTopic, NAMES))

    found = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert asked == [NAMES, *[["passes"]] * attempts]
    assert {name: one and one.code for name, one in found.items()} == dict.fromkeys(NAMES) | ANSWERS
