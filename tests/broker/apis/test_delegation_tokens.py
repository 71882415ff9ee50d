"""Who may ask a node about delegation tokens. Kafka's answers in full: `tests/conversations/own/delegation_tokens/`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from support.authorized_node import ADMIN, ALICE, AuthorizedNode, allow, authorized_node

from minikafka.controller.security.access import ANONYMOUS, Principal
from minikafka.protocol.acl_codes import AclOperation, AclResourceType
from minikafka.protocol.errors import ErrorCode

KEY = {"delegation.token.secret.key": "secret"}
CREATE: dict[str, Any] = {"renewers": [], "max_lifetime_ms": -1}
OF_BOB = {**CREATE, "owner_principal_type": "User", "owner_principal_name": "bob"}
BOB = {"owners": [{"principal_type": "User", "principal_name": "bob"}]}
REQUESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "CreateDelegationToken": (3, CREATE),
    "RenewDelegationToken": (2, {"hmac": "x", "renew_period_ms": -1}),
    "ExpireDelegationToken": (2, {"hmac": "x", "expiry_time_period_ms": -1}),
    "DescribeDelegationToken": (3, {"owners": None}),
}
BY_TOKEN = Principal("User", "admin", by_token=True)


def run(body: Callable[[AuthorizedNode], Awaitable[None]], **settings: str) -> None:
    async def main() -> None:
        async with authorized_node(**(settings or KEY)) as node:
            await body(node)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


@pytest.mark.parametrize("principal", [BY_TOKEN, ANONYMOUS], ids=["by a token", "anonymous"])
def test_a_client_by_token_or_without_a_name_may_not_ask_whoever_it_is(principal: Principal) -> None:
    async def body(node: AuthorizedNode) -> None:
        for api, (version, request) in REQUESTS.items():
            answer = await node.ask(principal, api, version, request)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, api
            assert getattr(answer, "expiry_timestamp_ms", -1) == -1

    run(body)


def test_without_the_key_every_request_is_told_so() -> None:
    async def body(node: AuthorizedNode) -> None:
        for api, (version, request) in REQUESTS.items():
            answer = await node.ask(ADMIN, api, version, request)
            assert answer.error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, api

    run(body, **{"delegation.token.secret.key": ""})


def test_a_token_of_somebody_else_needs_create_tokens_of_that_user() -> None:
    async def created(node: AuthorizedNode) -> int:
        answer = await node.ask(ALICE, "CreateDelegationToken", 3, OF_BOB)
        return int(answer.error_code)

    async def body(node: AuthorizedNode) -> None:
        assert await created(node) == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        for operation, name in ((AclOperation.DESCRIBE_TOKENS, "User:bob"), (AclOperation.CREATE_TOKENS, "User:carol")):
            node.grants.granted = [allow(operation, AclResourceType.USER, name)]
            assert await created(node) == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        node.grants.granted = [allow(AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:bob")]
        assert await created(node) == ErrorCode.NONE

    run(body)


def test_a_token_of_others_is_seen_by_a_grant_of_it_or_of_its_owner() -> None:
    async def seen(node: AuthorizedNode) -> list[str]:
        return [one.token_id for one in (await node.ask(ALICE, "DescribeDelegationToken", 3, BOB)).tokens]

    async def body(node: AuthorizedNode) -> None:
        token_id = (await node.ask(ADMIN, "CreateDelegationToken", 3, OF_BOB)).token_id
        assert await seen(node) == []
        for operation, kind, name in (
            (AclOperation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token_id),
            (AclOperation.DESCRIBE_TOKENS, AclResourceType.USER, "User:bob"),
        ):
            node.grants.granted = [allow(operation, kind, name)]
            assert await seen(node) == [token_id]
            node.grants.granted = [allow(operation, kind, "another")]
            assert await seen(node) == []

    run(body)
