"""What an operator does who changes the voters of the quorum, with a tool: it asks, and asks again until it is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import trio
from support.logins import Login

from minikafka.client.admin.admin import Admin
from minikafka.client.connections.seams import Seams
from minikafka.controller.raft.voter_set import ReplicaKey
from minikafka.protocol.errors import DuplicateVoterError, KafkaError, VoterNotFoundError
from minikafka.protocol.names import uuid_text

PATIENCE_S = 40.0
PAUSE_S = 0.5
REQUEST_TIMEOUT_MS = 4000
Change = Callable[[Admin], Awaitable[None]]
"""One request; raises KafkaError."""


async def change_all(seams: Seams, login: Login, changes: list[Change], tell: Callable[[str], None]) -> None:
    """Make changes one after the other; an operator without success loses patience.

    Args:
        tell: Is called with what each has come to.
    """
    with trio.move_on_after(PATIENCE_S * len(changes)):
        for change in changes:
            await _until_done(seams, login, change, tell)


async def _until_done(seams: Seams, login: Login, change: Change, tell: Callable[[str], None]) -> None:
    """A tool is started for each attempt."""
    while True:
        try:
            async with Admin(
                seams=seams,
                client_id="operator",
                request_timeout_ms=REQUEST_TIMEOUT_MS,
                default_api_timeout_ms=2 * REQUEST_TIMEOUT_MS,
                **login.minikafka,
            ) as admin:
                await change(admin)
        except (DuplicateVoterError, VoterNotFoundError) as error:
            tell(f"{type(error).__name__}: {error}")
            return
        except KafkaError as error:
            tell(f"tries again: {type(error).__name__}: {error}")
        else:
            tell("done")
            return
        await trio.sleep(PAUSE_S)


def adding(key: ReplicaKey, endpoints: Mapping[str, str]) -> Change:
    """`minikafka quorum add-controller`."""

    async def change(admin: Admin) -> None:
        await admin.add_raft_voter(key.id, uuid_text(key.directory_id), endpoints)

    return change


def removing(key: ReplicaKey) -> Change:
    """`minikafka quorum remove-controller`."""

    async def change(admin: Admin) -> None:
        await admin.remove_raft_voter(key.id, uuid_text(key.directory_id))

    return change


async def upgrade(admin: Admin) -> None:
    """`minikafka features upgrade kraft.version=1`. Raises KafkaError."""
    await admin.update_features({"kraft.version": 1})
