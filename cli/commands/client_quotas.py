"""The quotas of `minikafka configs`: quotas of clients, users and IP addresses, and the defaults for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, ClientQuota

QUOTA_KINDS = {"client": "client-id", "user": "user", "ip": "ip"}
"""The type of an entity in Kafka's protocol, by its word on the command line."""


def entity_of(kind: str, name: str | None, client_id: str | None, *, is_default: bool) -> dict[str, str | None] | None:
    """The entity that a command line names; a part without a name is the default entity. None if it names no entity."""
    if name is None and not is_default:
        return None
    entity: dict[str, str | None] = {QUOTA_KINDS[kind]: name}
    return entity if client_id is None else {**entity, "client-id": client_id}


async def quota_details(admin: Admin, kind: str, entity: Mapping[str, str | None] | None) -> list[dict[str, Any]]:
    """The quotas of an entity for JSON; without `entity`, of all entities that have a part of this kind."""
    if entity is None:
        found = await admin.describe_client_quotas(kinds=[QUOTA_KINDS[kind]])
    else:
        found = await admin.describe_client_quotas(entity, strict=True)
    return [details(one) for one in found]


def details(one: ClientQuota) -> dict[str, Any]:
    """An entity with its quotas, for JSON; the name of a default part is null."""
    return {"entity": dict(one.entity), "quotas": dict(sorted(one.values.items()))}


def quota_lines(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of quotas."""
    rows = [
        [entity_text(one["entity"]), name, number_text(value)] for one in found for name, value in one["quotas"].items()
    ]
    return table(("entity", "quota", "value"), rows) if rows else ["No quotas."]


def entity_text(entity: Mapping[str, str | None]) -> str:
    """An entity as text: `user alice, all client-ids`."""
    return ", ".join(f"all {kind}s" if name is None else f"{kind} {name}" for kind, name in sorted(entity.items()))


def number_text(value: float) -> str:
    """The value of a quota as text, without a fraction if it is whole."""
    return str(int(value)) if value == int(value) else str(value)


async def alter_quotas(
    admin: Admin,
    entity: Mapping[str, str | None] | None,
    settings: Iterable[tuple[str, str]],
    deleted: Iterable[str],
    *,
    dry_run: bool,
) -> None:
    """Change the quotas of an entity. Raises click.UsageError for a value that is not a number, and KafkaError."""
    values: dict[str, float] = {}
    for name, text in settings:
        try:
            values[name] = float(text)
        except ValueError:
            raise click.UsageError(f"{name}={text}: a quota is a number, such as bytes per second") from None
    await admin.alter_client_quotas(entity or {}, set=values, delete=deleted, validate_only=dry_run)
