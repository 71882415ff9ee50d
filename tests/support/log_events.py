"""Lists every log event in the sources and writes them into `docs/log-events.md`.

Logger, level, event and keys are read from the calls in the sources. The meaning of each event is written by hand in
the page, and kept when the page is written again. `tests/test_log_events.py` fails when the two differ.

After adding, renaming or removing an event: `make pages`, then write the
meaning of each event that the command lists.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "log-events.md"
PACKAGES = ("broker", "cli", "client", "controller", "spark_connector", "storage", "testing")
LEVELS = {
    "debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error",
    "critical": "critical",
}  # fmt: skip
"""Method of a logger to the level that the log line shows; `exception` adds the traceback."""

SECTION = re.compile(r"## `(?P<logger>[^`]+)`")
ROW = re.compile(r"\| (?P<level>[a-z/]+) \| (?P<event>.+?) \| (?P<keys>.*?) \| (?P<meaning>.*?) \|")

INTRODUCTION = """\
# Log events

Every message that a minikafka node, client or Spark connector logs: its level, text, keys and meaning, and what to do.
Levels, texts and keys are read from the sources; `tests/test_log_events.py` fails when this page differs. To update the
page, run `make pages`, then write the meaning of each event that the command lists.

A node logs to standard error: colored lines on a terminal, one JSON object per line otherwise, with the keys
`event`, `level`, `timestamp` (ISO 8601, UTC) and those below. The event is constant text. The level is set with
`--log-level` or, while the node runs, with AlterConfigs of the broker logger `root` (KIP-412). The client and the Spark
connector use Python's `logging`: their messages are listed with their `%` placeholders.
"""


class NotConstant(ValueError):
    """A log event that is not constant text, with its place in the sources."""


@dataclass(frozen=True, slots=True)
class LogEvent:
    """One event, as the sources have it.

    Attributes:
        logger: the name of the logger.
        level: as the log line shows it; several are joined with "/".
        event: the text.
        keys: of all calls that log the event, in the order of the first call.
    """

    logger: str
    level: str
    event: str
    keys: tuple[str, ...]


def events_in_sources() -> list[LogEvent]:
    """The events of all packages, by logger and text.

    Raises:
        NotConstant: an event is composed at run time, or keys are passed as `**`.
    """
    found: dict[tuple[str, str], LogEvent] = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for event in events_in_file(path):
                known = found.get((event.logger, event.event), event)
                levels = dict.fromkeys([*known.level.split("/"), event.level])
                keys = dict.fromkeys([*known.keys, *event.keys])
                found[event.logger, event.event] = LogEvent(event.logger, "/".join(levels), event.event, tuple(keys))
    return [found[key] for key in sorted(found)]


def events_in_file(path: Path) -> Iterator[LogEvent]:
    """The events that one module logs. A module has one logger."""
    tree = ast.parse(path.read_text())
    names = {name for node in ast.walk(tree) if (name := _logger_name(node, path)) is not None}
    if not names:
        return
    (logger,) = names
    listed: set[ast.expr] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for method in _methods(node.func):
                listed.add(method)
                yield _event(node, method.attr, logger, path)
            if isinstance(node.func, ast.Name) and node.func.id == "tolerated":  # See `client/user_code.py`.
                yield _event(ast.Call(node.func, node.args[1:], [], lineno=node.lineno), "error", logger, path)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr) and node not in listed and _methods(node) == [node]:
            raise NotConstant(f"{path.relative_to(ROOT)}:{node.lineno}: call the logger's method where it is named")


def _methods(function: ast.expr) -> list[ast.Attribute]:
    """The methods of a logger that a call uses: `log.info`, or two in `(log.debug if expected else log.warning)`."""
    match function:
        case ast.IfExp():
            return [*_methods(function.body), *_methods(function.orelse)]
        case ast.Attribute() if function.attr in LEVELS and _is_logger(function.value):
            return [function]
        case _:
            return []


def _logger_name(node: ast.AST, path: Path) -> str | None:
    """The name in `structlog.get_logger(name)` or `logging.getLogger(name)`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    if node.func.attr not in ("get_logger", "getLogger"):
        return None
    (name,) = node.args
    if isinstance(name, ast.Name) and name.id == "__name__":
        return "minikafka." + path.relative_to(ROOT).as_posix().removesuffix(".py").replace("/", ".")
    assert isinstance(name, ast.Constant), f"{path}:{node.lineno}: the name of a logger is a constant"
    return str(name.value)


def _is_logger(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="log" | "logger" | "_logger") | ast.Attribute(attr="_logger" | "_log"):
            return True
        case ast.Call(func=ast.Attribute(attr="get_logger")):
            return True
        case _:
            return False


def _event(call: ast.Call, method: str, logger: str, path: Path) -> LogEvent:
    place = f"{path.relative_to(ROOT)}:{call.lineno}"
    text = call.args[0] if call.args else None
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str)):
        raise NotConstant(f"{place}: the event must be constant text; pass what varies as keys")
    keys = [keyword.arg for keyword in call.keywords if keyword.arg != "exc_info"]
    if None in keys:
        raise NotConstant(f"{place}: name the keys of the event, ** hides them")
    return LogEvent(logger, LEVELS[method], text.value, tuple(key for key in keys if key is not None))


def meanings_in_page(page: str) -> dict[tuple[str, str], str]:
    """The meaning of each event by logger and text."""
    meanings: dict[tuple[str, str], str] = {}
    logger = ""
    for line in page.splitlines():
        if section := SECTION.fullmatch(line):
            logger = section["logger"]
        elif row := ROW.fullmatch(line):
            meanings[logger, row["event"].strip("`")] = row["meaning"]
    return meanings


def render(events: list[LogEvent], meanings: dict[tuple[str, str], str]) -> str:
    """The page; an event without a meaning gets an empty cell."""
    parts = [INTRODUCTION]
    for logger in dict.fromkeys(event.logger for event in events):
        parts.append(f"\n## `{logger}`\n\n| Level | Event | Keys | Meaning and action |\n|---|---|---|---|\n")
        for event in events:
            if event.logger == logger:
                keys = ", ".join(f"`{key}`" for key in event.keys)
                meaning = meanings.get((logger, event.event), "")
                parts.append(f"| {event.level} | `{event.event}` | {keys} | {meaning} |\n")
    return "".join(parts)


def main() -> None:
    """Write the page again; meanings of events that are gone are dropped, new events are listed."""
    events = events_in_sources()
    meanings = meanings_in_page(PAGE.read_text() if PAGE.exists() else "")
    PAGE.write_text(render(events, meanings))
    for event in events:
        if not meanings.get((event.logger, event.event)):
            print(f"write the meaning of: {event.logger}: {event.event}")
    for logger, text in sorted(meanings.keys() - {(event.logger, event.event) for event in events}):
        print(f"dropped: {logger}: {text}: {meanings[logger, text]}")


if __name__ == "__main__":
    main()
