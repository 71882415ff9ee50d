"""Reads the SCRAM users of a new cluster, as `kafka-storage format --add-scram` takes them.

    SCRAM-SHA-256=[name=alice,password=alice-secret]
    SCRAM-SHA-512=[name=alice,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y2s=",saltedpassword="AQID…"]

Source: `ScramParser`.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from random import Random

from minikafka.controller.metadata.records import ScramRecord
from minikafka.protocol.sasl.scram import (
    ITERATIONS_KEPT_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    salted_password,
    stored_keys,
)

__all__ = ["InvalidUser", "first_users"]

_SALT_BYTES = 16
_TEXT = re.compile(r"(?P<mechanism>[A-Za-z0-9-]+)=\[(?P<fields>.*)\]", re.DOTALL)
_FIELD = re.compile(r'(?P<name>[a-z]+)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<plain>[^,"]*))(?:,|\Z)', re.DOTALL)
_NAMES = ("name", "password", "iterations", "salt", "saltedpassword")


class InvalidUser(ValueError):
    """A user cannot be read. The text says why, and contains no password."""


def first_users(texts: Iterable[str], random: Random) -> tuple[ScramRecord, ...]:
    """Derive the credentials of users; takes milliseconds for each.

    Args:
        texts: The values of `--add-scram`.
        random: For salts that are not given.

    Raises:
        InvalidUser: A text is malformed, or two are of the same user and mechanism.
    """
    users: dict[tuple[str, int], ScramRecord] = {}
    for text in texts:
        user = _user(text, random)
        key = user.user, user.mechanism
        if key in users:
            raise InvalidUser(f"the user {user.user} is named twice for the same mechanism")
        users[key] = user
    return tuple(users.values())


def _user(text: str, random: Random) -> ScramRecord:
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise InvalidUser("expected MECHANISM=[name=USER,password=PASSWORD]")
    mechanism = ScramMechanism.of_mechanism(found["mechanism"])
    if mechanism is None:
        allowed = ", ".join(one.mechanism for one in ScramMechanism)
        raise InvalidUser(f"{found['mechanism']} is not a mechanism of SCRAM (allowed: {allowed})")
    fields = _fields(found["fields"])
    name = fields.get("name")
    if not name:
        raise InvalidUser("a user needs a name: name=USER")
    iterations = _iterations(fields.get("iterations", str(ITERATIONS_MIN)))
    if ("password" in fields) == ("saltedpassword" in fields):
        raise InvalidUser("You must supply one of 'password' or 'saltedpassword' to add-scram")
    salt = _decoded(fields, "salt") if "salt" in fields else random.randbytes(_SALT_BYTES)
    if "password" in fields:
        if not fields["password"]:
            raise InvalidUser("the password is empty")
        salted = salted_password(mechanism, fields["password"], salt, iterations)
    elif "salt" in fields:
        salted = _decoded(fields, "saltedpassword")
    else:
        raise InvalidUser("You must supply 'salt' with 'saltedpassword' to add-scram")
    keys = stored_keys(mechanism, salted, salt, iterations)
    return ScramRecord(name, mechanism.value, salt, keys.stored_key, keys.server_key, iterations)


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    while position < len(text):
        found = _FIELD.match(text, position)
        if found is None or found["name"] not in _NAMES or found["name"] in fields:
            raise InvalidUser(f"expected each of {', '.join(_NAMES)} at most once, as NAME=VALUE with commas between")
        quoted = found["quoted"]
        fields[found["name"]] = found["plain"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = found.end()
    return fields


def _iterations(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not ITERATIONS_MIN <= int(text[:9]) <= ITERATIONS_KEPT_MAX:
        raise InvalidUser(f"the 'iterations' value must be {ITERATIONS_MIN} to {ITERATIONS_KEPT_MAX}")
    return int(text[:9])


def _decoded(fields: dict[str, str], name: str) -> bytes:
    try:
        decoded = base64.b64decode(fields[name], validate=True)
    except binascii.Error:
        decoded = b""
    if not decoded:
        raise InvalidUser(f"{name} is not base64, or empty")
    return decoded
