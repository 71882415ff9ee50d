"""`minikafka tokens`: creates, lists, renews and ends delegation tokens (KIP-48)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from minikafka.cli.arguments.options import BytesType, Seconds, client_options
from minikafka.cli.records.template import iso_time
from minikafka.cli.running import with_admin
from minikafka.cli.terminal.output import json_option, output
from minikafka.cli.terminal.tables import table

if TYPE_CHECKING:
    from minikafka.client import Admin, DelegationToken


@click.group()
def tokens() -> None:
    """Create, list, renew and expire delegation tokens, with which programs log in as the token's owner.

    All nodes need the setting delegation.token.secret.key.

    Example: minikafka tokens create --renewer User:scheduler
    """


def principals(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Check that each given text is a principal, as User:alice. Raises click.BadParameter."""
    from minikafka.client.admin.admin_security import principal_parts

    for text in [value] if isinstance(value, str) else value or ():
        try:
            principal_parts(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return value


@tokens.command()
@client_options
@click.option(
    "--owner",
    metavar="PRINCIPAL",
    callback=principals,
    help="Owner of the token, such as User:alice; by default the user that asks.",
)
@click.option(
    "--renewer",
    "renewers",
    multiple=True,
    metavar="PRINCIPAL",
    callback=principals,
    help="Principal that may renew and expire the token; repeatable.",
)
@click.option(
    "--max-lifetime",
    "max_lifetime_s",
    type=Seconds(1),
    metavar="SECONDS",
    help="How long after its creation it can be renewed; by default delegation.token.max.lifetime.ms.",
)
@json_option
def create(
    bootstrap_server: str, owner: str | None, renewers: tuple[str, ...], max_lifetime_s: float | None, as_json: bool
) -> None:
    """Create a token, and print its id and HMAC.

    A client logs in by SCRAM with these as user and password.

    Example: minikafka tokens create
    """
    lifetime_ms = -1 if max_lifetime_s is None else round(max_lifetime_s * 1000)

    async def work(admin: Admin) -> None:
        token = await admin.create_delegation_token(owner=owner, renewers=renewers, max_lifetime_ms=lifetime_ms)
        output(details(token), token_lines([token]), as_json=as_json)

    with_admin(bootstrap_server, work)


@tokens.command("list")
@client_options
@click.option(
    "--owner",
    "owners",
    multiple=True,
    metavar="PRINCIPAL",
    callback=principals,
    help="Only tokens of this owner; repeatable.",
)
@json_option
def list_tokens(bootstrap_server: str, owners: tuple[str, ...], as_json: bool) -> None:
    """List the tokens that the user may see.

    Example: minikafka tokens list --owner User:alice
    """

    async def work(admin: Admin) -> None:
        found = await admin.describe_delegation_tokens(owners or None)
        output([details(token) for token in found], token_lines(found), as_json=as_json)

    with_admin(bootstrap_server, work)


def details(token: DelegationToken) -> dict[str, Any]:
    """A token for JSON."""
    return {
        "token_id": token.token_id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "max_ms": token.max_ms,
    }


def token_lines(found: Sequence[DelegationToken]) -> list[str]:
    """The table of tokens."""
    rows = [
        [
            token.token_id,
            base64.b64encode(token.hmac).decode(),
            token.owner,
            ", ".join(token.renewers) or "-",
            iso_time(token.expires_ms),
            iso_time(token.max_ms),
        ]
        for token in found
    ]
    if not rows:
        return ["No tokens."]
    return table(("token id", "hmac", "owner", "renewers", "expires", "at the latest"), rows)


class Hmac(BytesType):
    """The HMAC of a token, in Base64."""

    name = "hmac"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the bytes. Raises click.BadParameter, without the text, which may be a secret."""
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            self.fail("is not Base64, as `minikafka tokens create` prints it", param, ctx)


@tokens.command()
@client_options
@click.argument("hmac", type=Hmac())
@click.option(
    "--for",
    "period_s",
    type=Seconds(1),
    metavar="SECONDS",
    help="New validity, from now on; by default delegation.token.expiry.time.ms.",
)
@json_option
def renew(bootstrap_server: str, hmac: bytes, period_s: float | None, as_json: bool) -> None:
    """Renew the token with this HMAC.

    Example: minikafka tokens renew HMAC --for 86400
    """

    async def work(admin: Admin) -> None:
        period_ms = -1 if period_s is None else round(period_s * 1000)
        expires_ms = await admin.renew_delegation_token(hmac, period_ms=period_ms)
        output({"expires_ms": expires_ms}, [f"The token expires at {iso_time(expires_ms)}."], as_json=as_json)

    with_admin(bootstrap_server, work)


@tokens.command()
@client_options
@click.argument("hmac", type=Hmac())
@json_option
def expire(bootstrap_server: str, hmac: bytes, as_json: bool) -> None:
    """End the token with this HMAC now.

    Example: minikafka tokens expire HMAC
    """

    async def work(admin: Admin) -> None:
        expires_ms = await admin.expire_delegation_token(hmac)
        output({"expires_ms": expires_ms}, ["The token has ended."], as_json=as_json)

    with_admin(bootstrap_server, work)
