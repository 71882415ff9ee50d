"""Reads `sasl.jaas.config`: the login module of a mechanism (`LoginModule`, one of three) with its options, in the
grammar of a JAAS login configuration.

    org.apache.kafka.common.security.plain.PlainLoginModule required
        username="alice"
        password="secret";

The module names no class to be loaded: it is compared with three names, so text from elsewhere cannot load anything.
Source: Kafka's `JaasConfig`, which reads its tokens by Java's `StreamTokenizer`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

__all__ = ["JaasError", "Login", "LoginModule", "read_jaas"]

_PACKAGE = "org.apache.kafka.common.security"
LENGTH_MAX = 1 << 20
"""The most characters of a text; thousands of users fit."""


class LoginModule(StrEnum):
    """The login modules that exist; the value is Kafka's name of the class."""

    PLAIN = f"{_PACKAGE}.plain.PlainLoginModule"
    SCRAM = f"{_PACKAGE}.scram.ScramLoginModule"
    OAUTHBEARER = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"

    @classmethod
    def of_mechanism(cls, mechanism: str) -> LoginModule | None:
        """The module for a SASL mechanism; None for an unknown mechanism."""
        if mechanism.startswith("SCRAM-"):
            return cls.SCRAM
        return {"PLAIN": cls.PLAIN, "OAUTHBEARER": cls.OAUTHBEARER}.get(mechanism)


class JaasError(ValueError):
    """The text is no valid login configuration. The message says why and repeats nothing that could be a secret."""


@dataclass(frozen=True, slots=True)
class Login:
    """A login module and its options, which may be secrets and so are not in `repr`."""

    module: LoginModule
    options: Mapping[str, str] = field(repr=False)

    @property
    def username(self) -> str | None:
        """The name by which this side logs in; None if there is none."""
        return self.options.get("username")

    @property
    def password(self) -> str | None:
        """The password by which this side logs in; None if there is none."""
        return self.options.get("password")

    @property
    def by_token(self) -> bool:
        """Whether `username` and `password` are a delegation token's id and its HMAC (KIP-48)."""
        return self.options.get("tokenauth", "").lower() == "true"

    @property
    def passwords(self) -> dict[str, str]:
        """The password of each user that a PLAIN server accepts, from the options `user_NAME`."""
        return self.beginning_with("user_")

    def beginning_with(self, prefix: str) -> dict[str, str]:
        """The options whose names begin with `prefix`, by the rest of the name."""
        return {name[len(prefix) :]: value for name, value in self.options.items() if name.startswith(prefix)}


def read_jaas(text: str) -> Login:
    """Read a text with exactly one login module.

    Raises:
        JaasError: The text is malformed, has not exactly one module, or names another module than those above.
    """
    if len(text) > LENGTH_MAX:
        raise JaasError(f"has {len(text)} characters; allowed: at most {LENGTH_MAX}")
    tokens = _tokens(text)
    logins = [_login(first, tokens) for first in tokens]
    if len(logins) != 1:
        raise JaasError(f"contains {len(logins)} login modules, should be 1 module")
    return logins[0]


_CONTROL_FLAGS = ("REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL")
_KNOWN_OPTIONS = ("username", "password", "tokenauth")
"""The words that an error may name. Any other word may be a part of a password that lacks quotes."""


def _login(first: _Token, tokens: Iterator[_Token]) -> Login:
    module = _module(first)
    flag = next(tokens, None)
    if flag is None or flag.text is None:
        raise JaasError(f"has no control flag after {module.value}; allowed: required, requisite, sufficient, optional")
    if flag.text.upper() not in _CONTROL_FLAGS:
        raise JaasError(f"has an unknown control flag after {module.value}; allowed: required, requisite, "
                        "sufficient, optional")
    options: dict[str, str] = {}
    for key in tokens:
        if key.symbol == ";":
            return Login(module, options)
        if key.text is None:
            raise JaasError("has something that is not a name where an option or ; is expected; put a value with "
                            "special characters into double quotes")
        equals, value = next(tokens, None), next(tokens, None)
        if equals is None or equals.symbol != "=" or value is None or value.text is None:
            option = f"the option {key.text!r}" if key.text in _KNOWN_OPTIONS else f"its option {len(options) + 1}"
            raise JaasError(f"has no value for {option}; a value with digits or special characters needs quotes")
        options[key.text] = value.text
    raise JaasError("is not terminated by a semicolon")


def _module(token: _Token) -> LoginModule:
    try:
        return LoginModule(token.text or "")
    except ValueError:
        allowed = ", ".join(module.value for module in LoginModule)
        raise JaasError(f"has an unknown login module; allowed: {allowed}") from None


@dataclass(frozen=True, slots=True)
class _Token:
    """A word or a quoted text, or (with `text` None) a number or another character."""

    text: str | None
    symbol: str = ""


_TOKEN = re.compile(
    r"""
    [\x00-\x20]+                                                        # white space
  | /\*.*?(?:\*/|\Z)                                                    # comments
  | /[^\r\n]*
  | (?P<number>-?(?:\d+\.?\d*|\.\d*)|-(?![A-Za-z_$\xa0-\U0010ffff]))    # as StreamTokenizer: has no text
  | (?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9_$.\xa0-\U0010ffff-]*)
  | (?P<quote>["'])(?P<quoted>(?:\\(?:.|\Z)|(?!(?P=quote))[^\\\r\n])*)(?:(?P=quote)|(?=[\r\n])|\Z)
  | (?P<symbol>.)
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


def _tokens(text: str) -> Iterator[_Token]:
    for found in _TOKEN.finditer(text):
        if found["word"] is not None:
            yield _Token(found["word"])
        elif found["quote"] is not None:
            yield _Token(_unescaped(found["quoted"]))
        elif (symbol := found["number"] or found["symbol"]) is not None:
            yield _Token(None, symbol)


_ESCAPE = re.compile(r"\\(?:(?P<octal>[0-3][0-7]{0,2}|[4-7][0-7]?)|(?P<letter>.|\Z))", re.DOTALL)
_LETTERS = {"a": "\x07", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def _unescaped(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found["octal"]:
            return chr(int(found["octal"], 8))
        return _LETTERS.get(found["letter"], found["letter"])

    return _ESCAPE.sub(character, text)
