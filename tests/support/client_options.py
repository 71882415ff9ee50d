"""Writes `client/arguments.py` and `docs/reference/options.md` from the declared options of the clients."""

from __future__ import annotations

import re
import textwrap
from dataclasses import Field, fields
from pathlib import Path

from minikafka.client.option_checks import kafka_name
from minikafka.client.options import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions

ROOT = Path(__file__).parents[2]
ARGUMENTS, PAGE = ROOT / "client/arguments.py", ROOT / "docs/reference/options.md"
CLIENTS: list[tuple[str, type[ClientOptions]]] = [
    ("Client", ClientOptions),
    ("Admin", AdminOptions),
    ("Producer", ProducerOptions),
    ("Consumer", ConsumerOptions),
]
_TITLES = {
    "Client": "Every client",
    "Admin": "Admin",
    "Producer": "Producer",
    "Consumer": "Consumer",
}
_ELSEWHERE = {
    "option_checks": {"Deserializer", "Serializer", "SecurityProtocol", "TokenProvider"},
    "security.sasl_login": {"SaslMechanism"},
    "security.security_options": {"EndpointIdentification", "StoreType", "TlsVersion"},
}
"""Types that are not declared in `options.py`, by module."""
_HEAD = '''\
"""The keyword arguments of Producer, Consumer and Admin for type checkers (`**options: Unpack[ProducerArguments]`).

Made by `make pages` from the dataclasses in `options.py` and `security/security_options.py`, where an option's default,
bounds and meaning are declared; a test holds them equal. `bootstrap_servers` is missing: the constructors declare
it themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from minikafka.client.assignor import Assignor
from minikafka.client.interceptors import ConsumerInterceptor, ProducerInterceptor
'''
_PAGE = """# Options of the clients

Made from the declarations in `client/options.py`; a test checks that this page is up to date. The constructors of
`Producer`, `Consumer` and `Admin` take them as keyword arguments, in async and blocking code alike; an editor shows the
same. A value that is not allowed raises `InvalidOption`.
"""


def own(kind: type[ClientOptions]) -> list[Field[object]]:
    """The options that a class declares itself, or declares anew with another default; of every client, all."""
    return [one for one in fields(kind) if one.name in kind.__annotations__ or kind is ClientOptions]


def default_of(one: Field[object]) -> str:
    if isinstance(one.default, int) and not isinstance(one.default, bool):
        return f"{one.default:_}" if one.default >= 10_000 else str(one.default)
    return repr(one.default).replace("'", '"')


def named(one: Field[object]) -> str:
    kafka = kafka_name(one.name, one.metadata)
    return f"Kafka's `{kafka}`" if kafka else "not an option of Kafka"


def arguments() -> str:
    """The source of `arguments.py`."""
    names: set[str] = set()
    classes = ""
    for client, kind in CLIENTS:
        base = "TypedDict" if client == "Client" else "ClientArguments"
        what = "every client" if client == "Client" else f"a{'n' if client == 'Admin' else ''} {client}"
        classes += f'\n\nclass {client}Arguments({base}, total=False):\n    """Options of {what}."""\n'
        for one in own(kind):
            redeclared = client != "Client" and one.name in ClientOptions.__annotations__
            if one.name == "bootstrap_servers" or redeclared:
                continue
            names |= set(re.findall(r"[A-Z]\w+", str(one.type)))
            text = f"{one.metadata['meaning']} Default: {default_of(one)}; {named(one)}."
            wrapped = "\n".join(textwrap.wrap(text, 109, break_long_words=False))
            if "\n" in wrapped:
                wrapped += "\n"
            docstring = textwrap.indent(f'"""{wrapped}"""', "    ")
            classes += f"\n    {one.name}: {one.type}\n{docstring}\n"
    own_names = names - {"Sequence", "Assignor", "ConsumerInterceptor", "ProducerInterceptor", "None"}
    imports = ""
    for module, names_there in _ELSEWHERE.items():
        listed = sorted(own_names & names_there)
        own_names -= names_there
        imports += f"from minikafka.client.{module} import {', '.join(listed)}\n"
        if module == "option_checks":
            imports += "from minikafka.client.options import (\n{rest})\n"
    rest = "".join(f"    {name},\n" for name in sorted(own_names))
    return f"{_HEAD}{imports.format(rest=rest)}{classes}"


def page() -> str:
    """The page of options."""
    text = _PAGE
    for client, kind in CLIENTS:
        text += f"\n## {_TITLES[client]}\n\n| Option | Default | Kafka's name | |\n| --- | --- | --- | --- |\n"
        for one in own(kind):
            kafka = kafka_name(one.name, one.metadata)
            names = ", ".join(f"`{name}`" for name in kafka.split(", ")) if kafka else ""
            meaning = f"{one.metadata['meaning']} Allowed: {allowed(one)}."
            text += f"| `{one.name}` | `{default_of(one)}` | {names} | {meaning} |\n"
    return text


def allowed(one: Field[object]) -> str:
    """The allowed values in the words of InvalidOption."""
    return str(one.metadata["check"](object())).split(" (<object")[0]


if __name__ == "__main__":
    ARGUMENTS.write_text(arguments())
    PAGE.write_text(page())
