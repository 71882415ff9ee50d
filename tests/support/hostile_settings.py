"""Every setting of every type of resource with values that no sensible client sends, and what a node answers.

The answers of Apache Kafka are recorded in a file: a line for each route and setting, with a letter for each of
`VALUES`. A route is the way that a value takes: the type of resource, the API, and the listener that is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.settings.registry import (
    CLIENT_METRICS_SETTINGS,
    GROUP_SETTINGS,
    NODE_SETTINGS,
    TOPIC_SETTINGS,
    Setting,
)

FILE = Path(__file__).parents[1] / "controller" / "kafkas_answers_to_settings.txt"
SURROGATE = "\x1c\x1d\x1e"
"""Stands for the three bytes of a lone surrogate, which is no UTF-8."""
TEXT_SIZE_MAX = 32_767

VALUES: dict[str, str] = {
    "empty": "",
    "blanks": "   ",
    "zero": "0",
    "one": "1",
    "minus one": "-1",
    "signed": "+5",
    "twice signed": "+-5",
    "padded": " 5 ",
    "padded with NUL": "\x005\x00",
    "no-break space": "\u00a05",
    "long of Java": "5L",
    "float of Java": "5f",
    "hexadecimal": "0x10",
    "octal of Python": "0o7",
    "underscore": "1_000",
    "Arabic digits": "١٢",
    "wide digits": "１２",
    "superscript": "²",
    "fraction": "0.5",
    "exponent": "1e3",
    "infinite exponent": "1e400",
    "infinitesimal": "1e-400",
    "hexadecimal exponent": "0x1p99999",
    "negative hexadecimal exponent": "-0x1p99999",
    "hexadecimal fraction": "0x.8p0",
    "NaN": "NaN",
    "nan of Python": "nan",
    "Infinity": "Infinity",
    "minus Infinity": "-Infinity",
    "inf of Python": "inf",
    "above int": "2147483648",
    "above long": "9223372036854775808",
    "below long": "-9223372036854775809",
    "true": "true",
    "padded TRUE": " TRUE ",
    "comma": ",",
    "commas": "a,,b",
    "stars": "*,*",
    "equals": "client_id=(",
    "escape": "\x1b[31m",
    "surrogate": SURROGATE,
    "emoji": "\U0001f600",
    "newline": "a\nb=c",
    "repetition": "client_id=a{99999999999}",
    "letters": "x" * 32_760,
    "full": "y" * TEXT_SIZE_MAX,
    "wide": "\u20ac" * (TEXT_SIZE_MAX // 3),
    "zeros": "0" * 5_000 + "1",
    "nines": "9" * 5_000,
    "long fraction": "0." + "0" * 5_000 + "1",
    "parentheses": "(" * 3_000,
    "matching parentheses": "client_id=" + "(" * 3_000,
    "replica": "1:1",
    "replica of many digits": "9" * 500 + ":1",
    "node of many digits": "1:" + "9" * 5_000,
    "many commas": "," * 20_000,
}
LONG = 1_000
"""A value of more letters is asked for alone: the response to it may not exist."""
LETTERS: dict[int | str, str] = {
    ErrorCode.NONE: ".",
    ErrorCode.INVALID_CONFIG: "c",
    ErrorCode.INVALID_REQUEST: "r",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "u",
    ErrorCode.UNKNOWN_SERVER_ERROR: "?",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "t",
    "closed": "!",
}
CRASHES = "?!"
"""Kafka itself failed: any other error is right."""
Asked = tuple[str, int, dict[str, Any]]
"""A request in the form of a conversation."""
Results = Generator[Asked, Any, list[Any] | None]
"""Yields requests and is sent their responses, None for a closed connection; returns the results for values."""


@dataclass(frozen=True)
class Route:
    """A way of values to a node.

    Attributes:
        settings: whose values are sent.
        results: for values of a setting, in their order; None for a closed connection.
        alone: whether a request has one value only.
    """

    settings: Mapping[str, Setting]
    results: Callable[[str, list[str]], Results]
    alone: bool = False


def altering(kind: int, *, incremental: bool, name: str | None = None) -> Callable[[str, list[str]], Results]:
    """Nothing is changed."""

    def results(setting: str, values: list[str]) -> Results:
        resources = [
            {
                "resource_type": kind,
                "resource_name": f"x{index}" if name is None else name,
                "configs": [{"name": setting, "value": value}],
            }
            for index, value in enumerate(values)
        ]
        api = ("IncrementalAlterConfigs", 1) if incremental else ("AlterConfigs", 2)
        response = yield *api, {"validate_only": True, "resources": resources}
        return None if response is None else sorted(response.responses, key=lambda one: _number_in(one.resource_name))

    return results


def creating(setting: str, values: list[str]) -> Results:
    """Topics that are not created, in the order of the request."""
    topics = [
        {"name": f"x{i}", "num_partitions": 1, "replication_factor": 1, "configs": [{"name": setting, "value": value}]}
        for i, value in enumerate(values)
    ]
    response = yield "CreateTopics", 7, {"validate_only": True, "timeout_ms": 30_000, "topics": topics}
    return None if response is None else sorted(response.topics, key=lambda one: _number_in(one.name))


def _number_in(name: str) -> int:
    """That of a resource of ours: a controller answers in an order of its own."""
    return int(name.removeprefix("x") or 0)


def leveling(level: str, values: list[str]) -> Results:
    """Loggers of these names."""
    return altering(8, incremental=True, name="1")(values[0], [level])


DYNAMIC = {name: one for name, one in NODE_SETTINGS.items() if not one.read_only}
ONE = {"root": NODE_SETTINGS["node.id"]}
AT_BROKERS: dict[str, Route] = {
    "topic": Route(TOPIC_SETTINGS, altering(2, incremental=True)),
    "topic as a whole": Route(TOPIC_SETTINGS, altering(2, incremental=False)),
    "new topic": Route(TOPIC_SETTINGS, creating),
    "broker": Route(DYNAMIC, altering(4, incremental=True, name="1"), alone=True),
    "all brokers": Route(DYNAMIC, altering(4, incremental=True, name=""), alone=True),
    "group": Route(GROUP_SETTINGS, altering(32, incremental=True)),
    "client metrics": Route(CLIENT_METRICS_SETTINGS, altering(16, incremental=True)),
    "level of a logger": Route(ONE, altering(8, incremental=True, name="1"), alone=True),
    "logger": Route({"INFO": NODE_SETTINGS["node.id"]}, leveling, alone=True),
}
AT_CONTROLLERS = {
    f"{name} at the controller": AT_BROKERS[name] for name in ("topic", "new topic", "group", "client metrics")
}
ROUTES = AT_BROKERS | AT_CONTROLLERS


def row(route: Route, setting: str) -> Generator[Asked, Any, str]:
    """Yields requests and is sent their responses; returns the letters of the answers, in the order of `VALUES`."""
    letters: dict[str, str] = {}
    short = [] if route.alone else [text for text in VALUES.values() if len(text) < LONG]
    for asked in [short, *([text] for text in VALUES.values() if text not in short)]:
        results = (yield from route.results(setting, asked)) if asked else []
        found = [LETTERS["closed"]] * len(asked) if results is None else [_letter(one) for one in results]
        letters |= dict(zip(asked, found, strict=True))
    return "".join(letters[text] for text in VALUES.values())


def _letter(result: Any) -> str:
    if result.error_code:
        message = result.error_message
        assert message is None or len(message.encode()) <= TEXT_SIZE_MAX
    return LETTERS[result.error_code]


def recorded() -> dict[tuple[str, str], str]:
    """Kafka's answers by route and setting."""
    lines = [line for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    rows = {}
    for line in lines:
        route, settings, letters = line.split("\t")
        rows |= {(route, setting): letters for setting in settings.split(",")}
    return rows


def rendered(rows: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """The lines of the file: settings with the same answers share one."""
    yield "# Apache Kafka 4.3.1: a letter for the answer to each of `VALUES` (`support/hostile_settings.py`)"
    together: dict[tuple[str, str], list[str]] = {}
    for (route, setting), letters in rows.items():
        together.setdefault((route, letters), []).append(setting)
    for (route, letters), settings in together.items():
        yield f"{route}\t{','.join(settings)}\t{letters}"
