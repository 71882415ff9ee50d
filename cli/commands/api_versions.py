"""`minikafka api-versions`: the APIs of a broker, and the versions that it and this client have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.options import broker_option, check_broker, client_options
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, ApiVersionRange


@click.command("api-versions")
@client_options
@broker_option
@json_option
def api_versions(bootstrap_server: str, broker: int | None, as_json: bool) -> None:
    """List the APIs that a broker offers, with their versions and the version that this client uses.

    \b
    Examples:
      minikafka api-versions
      minikafka api-versions --broker 1 --json
    """

    async def work(admin: Admin) -> None:
        await check_broker(admin, broker)
        rows = [details(one) for one in await admin.describe_api_versions(broker)]
        cells = [
            [one["key"], one["name"], one["first"], one["last"], "-" if one["used"] is None else one["used"]]
            for one in rows
        ]
        output(rows, table(("key", "api", "first", "last", "used"), cells), as_json=as_json)

    with_admin(bootstrap_server, work)


def details(one: ApiVersionRange) -> dict[str, Any]:
    """An API, for JSON; `used` is null if this client has no version in common with the broker."""
    from minikafka.protocol.apis import APIS

    used = None
    if one.key in APIS:
        newest = min(one.last, APIS[one.key].versions.last)
        used = newest if newest >= max(one.first, APIS[one.key].versions.first) else None
    return {"key": one.key, "name": one.name, "first": one.first, "last": one.last, "used": used}
