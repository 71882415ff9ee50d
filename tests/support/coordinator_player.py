"""Plays conversations against a `MemoryNode`: no process, no sockets, and waiting takes no time."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from support.conversation import Answer, Closed, Conversation, Request, Silence, Step, Wait
from support.conversation_names import Names
from support.conversation_player import NOTHING, Difference
from support.conversation_values import API_BY_NAME, comparable, spell_out, to_message
from support.coordinator_node import HANDLERS, MemoryNode, run_with_node

OTHERS = ("CreateTopics", "DeleteTopics", "Metadata", "ListOffsets", "InitProducerId")
"""APIs of the setup: executed if the node has them, not compared."""
ANSWER_TIMEOUT_S = 15.0


def can_play(conversation: Conversation) -> bool:
    """Whether the conversation only uses group APIs."""
    apis = {step.api for _, step in conversation.steps if isinstance(step, Request)}
    kinds = {type(step) for _, step in conversation.steps}
    return apis <= {*HANDLERS, *OTHERS} and kinds <= {Request, Answer, Silence, Wait, Closed}


def play_in_memory(
    conversation: Conversation, then: Callable[[MemoryNode], Awaitable[None]] | None = None
) -> list[Difference]:
    """Play all steps; returns the differing responses.

    Args:
        then: Called with the node after the last step.
    """

    async def body(node: MemoryNode) -> list[Difference]:
        async with trio.open_nursery() as nursery:
            player = _Player(conversation, node, nursery)
            for line, step in conversation.steps:
                await player.play(line, step)
            if then is not None:
                await then(node)
            nursery.cancel_scope.cancel()
        return player.differences

    return run_with_node(body, settings=conversation.settings)


class _Connection:
    """Requests of one connection are handled one after another."""

    def __init__(self, node: MemoryNode, nursery: trio.Nursery) -> None:
        self._node = node
        self._requests, waiting = trio.open_memory_channel[tuple[str, int, Any]](99)
        send_answer, self._answers = trio.open_memory_channel[tuple[str, int, Any]](99)
        nursery.start_soon(self._serve, waiting, send_answer)

    async def _serve(self, requests: Any, answers: Any) -> None:
        async for api, version, message in requests:
            await answers.send((api, version, await self._node.ask(api, version, message)))

    def send(self, api: str, version: int, message: Any) -> None:
        self._requests.send_nowait((api, version, message))

    async def receive(self, timeout_s: float) -> tuple[str, int, Any] | None:
        with trio.move_on_after(timeout_s):
            return await self._answers.receive()
        return None


class _Player:
    def __init__(self, conversation: Conversation, node: MemoryNode, nursery: trio.Nursery) -> None:
        self._node = node
        self._nursery = nursery
        self._names = Names("c0-")
        self._connections: dict[str, _Connection] = {}
        self._last: dict[str, Request] = {}
        self.differences: list[Difference] = []

    async def play(self, line: int, step: Step) -> None:
        match step:
            case Request():
                self._last[step.connection] = step
                await self._send(step)
            case Answer() if self._last[step.connection].api in OTHERS:
                pass
            case Answer():
                self._compare(line, step, step.body, await self._answer(step.connection, ANSWER_TIMEOUT_S))
            case Silence():
                answer = await self._answer(step.connection, step.time_ms / 1000)
                self._compare(line, step, NOTHING, answer)
            case Wait():
                await trio.sleep(step.time_ms / 1000)
            case _:
                raise AssertionError(step)

    async def _send(self, step: Request) -> None:
        body = self._names.outward(step.body)
        if step.api == "CreateTopics":
            for topic in body["topics"]:
                topic_id = self._node.create_topic(topic["name"], topic["num_partitions"])
                self._names.inward({"topic_id": str(uuid.UUID(bytes=topic_id))})
        elif step.api == "DeleteTopics":
            for name in body.get("topic_names") or [topic["name"] for topic in body["topics"]]:
                await self._node.delete_topic(name)
        elif step.api not in OTHERS:
            message = to_message(API_BY_NAME[step.api].request, step.version, body)
            self._on(step.connection).send(step.api, step.version, message)

    async def _answer(self, connection: str, timeout_s: float) -> Any:
        received = await self._on(connection).receive(timeout_s)
        if received is None:
            return NOTHING
        _, version, message = received
        return self._names.inward(spell_out(comparable(type(message), version, message)))

    def _compare(self, line: int, step: Answer | Silence, expected: Any, answer: Any) -> None:
        if answer != expected:
            request = self._last[step.connection]
            asked = f"{request.api} v{request.version} {json.dumps(request.body)}"
            self.differences.append(Difference(line, asked, json.dumps(expected), json.dumps(answer)))

    def _on(self, name: str) -> _Connection:
        if name not in self._connections:
            self._connections[name] = _Connection(self._node, self._nursery)
        return self._connections[name]
