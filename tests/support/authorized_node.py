"""A node in memory that answers requests of named clients, with an authorizer that knows a few grants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from minikafka.broker.connections.dispatcher import Dispatcher
from minikafka.broker.connections.long_polls import Parked, Receiver
from minikafka.broker.connections.request_context import Answer, ConnectionInfo
from minikafka.broker.node.main import make_node
from minikafka.broker.node.node import Node
from minikafka.controller.security.access import Principal
from minikafka.protocol.acl_codes import AclOperation, AclPermission, AclResourceType, PatternType
from minikafka.protocol.headers import decode_response, encode_request
from minikafka.storage.disks.disk import FileSlice
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.waits import Begun
from support.authorization_matrix import Grant, has_error, shown
from support.conversation_values import API_BY_NAME, to_message
from support.memory_node import MemoryListeners, config, system

ALICE, ADMIN = Principal("User", "alice"), Principal("User", "admin")
_IMPLIED = {
    AclOperation.DESCRIBE: (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER),
    AclOperation.DESCRIBE_CONFIGS: (AclOperation.ALTER_CONFIGS,),
}


def allow(operation: AclOperation, resource_type: AclResourceType, name: str) -> Grant:
    """A grant of one operation on one resource."""
    return Grant(AclPermission.ALLOW, operation, resource_type, PatternType.LITERAL, name)


class Grants:
    """An authorizer with grants for alice; the admin is a super user.

    Attributes:
        granted: The grants, which a test may change.
        asked: The questions about alice.
    """

    def __init__(self) -> None:
        self.granted: list[Grant] = []
        self.asked: list[tuple[AclOperation, AclResourceType, str]] = []

    def allows(
        self,
        principal: Principal,
        host: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
        *,
        log_denied: bool,
    ) -> bool:
        if principal == ADMIN:
            return True
        self.asked.append((operation, resource_type, name))
        about = [one for one in self.granted if one.covers(resource_type, name)]
        allowing = (operation, AclOperation.ALL, *_IMPLIED.get(operation, ()))
        denied = any(one.permission is AclPermission.DENY and one.operation is operation for one in about)
        allowed = any(one.permission is AclPermission.ALLOW and one.operation in allowing for one in about)
        return allowed and not denied

    def allows_any(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: AclResourceType
    ) -> bool:
        of_type = [one for one in self.granted if one.resource_type is resource_type]
        allowed = [one for one in of_type if one.operation in (operation, AclOperation.ALL)]
        everywhere = Grant(AclPermission.DENY, operation, resource_type, PatternType.LITERAL, "*")
        return any(one.permission is AclPermission.ALLOW for one in allowed) and everywhere not in self.granted


class AuthorizedNode:
    """Asks a node as alice or as the admin.

    Attributes:
        connection: That of the last request; each has its own.
        routes: The APIs of the node, by key.
    """

    def __init__(self, node: Node) -> None:
        self.grants = Grants()
        self.connection = ConnectionInfo("PLAINTEXT", "127.0.0.1")
        services = node.parts.services
        self.routes = services.setup.routes
        self._dispatcher = Dispatcher(
            services, self.routes, clock=trio.current_time, authorizer=self.grants
        )

    async def ask(self, principal: Principal, api: str, version: int, body: dict[str, Any]) -> Any:
        """Send a request; returns the response, None if there is none. Raises Disconnect."""
        message = to_message(API_BY_NAME[api].request, version, body)
        self.connection = client = ConnectionInfo("PLAINTEXT", "127.0.0.1", "node", 9092, principal=principal)
        frame = bytearray(encode_request(message, version, 1, "test")[4:])
        parts, _ = await self._dispatcher.answer(frame, client)
        if not parts:
            return None
        answered = b"".join(part.read() if isinstance(part, FileSlice) else part for part in parts)
        return decode_response(API_BY_NAME[api].response, version, answered[4:])[1]

    def begin(
        self, principal: Principal, api: str, version: int, body: dict[str, Any], receiver: Receiver
    ) -> Begun[Answer] | Parked:
        """Begin to answer a request on a connection of its own that takes shared responses, as those of sockets do."""
        message = to_message(API_BY_NAME[api].request, version, body)
        client = ConnectionInfo("PLAINTEXT", "127.0.0.1", "node", 9092, principal=principal)
        return self._dispatcher.answer_now(bytearray(encode_request(message, version, 1, "test")[4:]), client, receiver)

    async def prepare(self, *requests: tuple[str, int, dict[str, Any]]) -> Any:
        """Send requests as the admin, each until it succeeds; returns the last response."""
        response = None
        for request in requests:
            with trio.fail_after(60):
                while has_error(shown(request, response := await self.ask(ADMIN, *request))):
                    await trio.sleep(0.1)
        return response


@asynccontextmanager
async def authorized_node(**settings: str) -> AsyncIterator[AuthorizedNode]:
    """A running node; its clock jumps ahead if the test runs with an autojumping one."""
    node = make_node(config(1, **settings), system(MemoryDisk(), MemoryListeners()))
    assert isinstance(node, Node)
    async with trio.open_nursery() as nursery:
        await nursery.start(node.run)
        yield AuthorizedNode(node)
        nursery.cancel_scope.cancel()
