"""The principal of a certificate: its name as Java writes it (RFC 2253), mapped by `ssl.principal.mapping.rules`.

Source: `javax.security.auth.x500.X500Principal.getName`, `SslPrincipalMapper` (KIP-371).
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import re2
from cryptography import x509

__all__ = ["InvalidRule", "NoRuleApplies", "distinguished_name", "principal_mapper"]

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
"""The attributes that have names in RFC 2253. Values of others are written in hexadecimal."""
_TEXT_TAGS = {0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E}
"""The types of texts that Java writes as texts: UTF8String, PrintableString, T61String and others."""
_ESCAPED = re.compile(r'[,=+<>#;"\\]')
_SEQUENCE, _SET = 0x30, 0x31


def distinguished_name(certificate: bytes) -> str:
    """The name of the subject of a certificate in DER, the most specific part first: `CN=carol,OU=hr,O=acme`.

    Raises:
        ValueError: The certificate is malformed.
    """
    try:
        name = x509.load_der_x509_certificate(certificate).subject.public_bytes()
    except (TypeError, x509.InvalidVersion) as error:  # which OpenSSL does not mind
        raise ValueError(f"the certificate is malformed: {error}") from None
    parts = [_part(content) for tag, content, _ in _values(_values_of(name, _SEQUENCE)) if tag == _SET]
    return ",".join(reversed(parts))


def _part(attributes: bytes) -> str:
    return "+".join(_attribute(content) for _, content, _ in _values(attributes))


def _attribute(pair: bytes) -> str:
    (_, oid, _), (tag, content, whole) = _values(pair)
    dotted = _dotted(oid)
    if dotted not in _KEYWORDS or tag not in _TEXT_TAGS:
        return f"{_KEYWORDS.get(dotted, dotted)}=#{whole.hex()}"
    return f"{_KEYWORDS[dotted]}={_escaped(content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    stripped = text.strip(" ")
    leading = len(text) - len(text.lstrip(" "))
    trailing = len(text) - leading - len(stripped)
    escaped = _ESCAPED.sub(lambda found: "\\" + found[0], stripped).replace("\0", "\\00")
    return "\\ " * leading + escaped + "\\ " * trailing


def _dotted(oid: bytes) -> str:
    numbers, number = list[int](), 0
    for byte in oid:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, [first, numbers[0] - 40 * first, *numbers[1:]]))


def _values_of(data: bytes, tag: int) -> bytes:
    """The content of the one DER value that `data` is."""
    ((found, content, _),) = _values(data)
    if found != tag:
        raise ValueError(f"a value of type {found} instead of {tag}")
    return content


def _values(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """The DER values of `data`: tag, content, and the whole value."""
    at = 0
    while at < len(data):
        start, size, at = at, data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(data[at : at + count], "big"), at + count
        yield data[start], data[at : at + size], data[start : at + size]
        at += size


# -- rules ---------------------------------------------------------------------------------------------------------

_PARSER = re.compile(r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?)")
_SPLITTER = re.compile(
    r"\s*((DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(?:.*?))\s*(?:,\s*|$)"
)
_REFERENCE = re.compile(r"\\(.)|\$(\d+)", re.DOTALL)


_SILENT = re2.Options()
_SILENT.log_errors = False


class InvalidRule(ValueError):
    """`ssl.principal.mapping.rules` has a rule that cannot be used; the text says which."""


class NoRuleApplies(ValueError):
    """No rule of `ssl.principal.mapping.rules` applies to a name."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One rule, whose pattern is RE2's; `DEFAULT` has none."""

    pattern: Any = None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        """The name of the principal; None if the rule does not apply."""
        if self.pattern is None:
            return name
        if not self.pattern.fullmatch(name):
            return None
        mapped = self.pattern.sub(self._replaced, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.case, mapped)

    def _replaced(self, found: Any) -> str:
        """The replacement with `$1` as in Java: as many digits as are the number of a group."""

        def expand(reference: re.Match[str]) -> str:
            if reference[1] is not None:
                return reference[1]
            digits, groups = reference[2], len(found.groups())
            for length in range(len(digits), 0, -1):
                if int(digits[:length]) <= groups:
                    return (found[int(digits[:length])] or "") + digits[length:]
            return reference[0]

        return _REFERENCE.sub(expand, self.replacement)


def principal_mapper(rules: str) -> Callable[[str], str]:
    """A function that maps the name of a certificate to that of the principal, by the first rule that applies.

    The function raises NoRuleApplies.

    Args:
        rules: The text of `ssl.principal.mapping.rules`: `RULE:pattern/replacement/[LU]` and `DEFAULT`, with commas.

    Raises:
        InvalidRule: A rule is malformed.
    """
    parsed = list(_rules(rules))

    def mapped(name: str) -> str:
        for rule in parsed:
            if (principal := rule.apply(name)) is not None:
                return principal
        raise NoRuleApplies(f"no rule of ssl.principal.mapping.rules applies to {name}")

    return mapped


def _rules(text: str) -> Iterator[_Rule]:
    for entry in _SPLITTER.finditer(text.strip()):
        rule = entry[1]
        found = _PARSER.match(rule)
        if found is None or found.end() != len(rule):
            raise InvalidRule(f"Invalid rule: {rule}; allowed: DEFAULT and RULE:pattern/replacement/[LU]")
        if found[1] is not None:
            yield _Rule()
        elif found[2] is not None:
            try:
                yield _Rule(re2.compile(found[2], _SILENT), found[3], found[4])
            except re2.error as error:
                raise InvalidRule(f"Invalid rule: {rule}: its pattern is invalid: {error}") from None
