"""No log line that strangers can cause is unbounded: those of the listeners' packages pass a `LineRate`.

A stranger is who has not logged in, or has sent nothing valid where no login is asked for. A line of level DEBUG is off
by default, and one with a traceback is a bug. `tests/hostile/test_listeners.py` counts the lines of real nodes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.log_events import LEVELS, events_in_sources

import minikafka.broker

ROOT = Path(minikafka.broker.__file__).parents[1]
PLACES = ("broker/connections", "broker/metrics", "broker/security", "controller/quorum")
"""What runs on the bytes of strangers."""
RATE = {"admits", "left_out"}
"""The methods of a `LineRate`, on which a line depends."""
SILENT = {"debug", "exception"}

AT_MOST_ONE_A_SECOND = "once a second, with a count"
OF_KEYS = "the keys are read every ten seconds at most"
OF_ITS_OWN = "caused by this node, its disk or its quorum"
OF_OPERATORS = "caused by those who may alter the settings"
BOUNDED_OTHERWISE = {
    "accept failed": "followed by a pause of accepting",
    "certificates not renewed": OF_OPERATORS,
    "certificates renewed": OF_OPERATORS,
    "changed stores not used": OF_OPERATORS,
    "cluster id learned": "once in the life of a node",
    "connection refused: too many connections": AT_MOST_ONE_A_SECOND,
    "controller in an earlier epoch": "once a minute",
    "elected leader of the quorum": OF_ITS_OWN,
    "following quorum leader": OF_ITS_OWN,
    "keys of tokens cannot be read": OF_KEYS,
    "keys of tokens left out": OF_KEYS,
    "leadership of the quorum lost": OF_ITS_OWN,
    "malformed raft response": "from a controller that this node asked, after a pause",
    "metadata snapshot failed": OF_ITS_OWN,
    "metadata snapshot installed": OF_ITS_OWN,
    "no keys of tokens": OF_KEYS,
    "node in a later epoch": "once a minute",
    "peer disconnected": "for each 64 MiB that a node asked for and did not read",
    "peer handshake failed": AT_MOST_ONE_A_SECOND,
    "quorum voters changed": OF_OPERATORS,
    "quorum voters discovered": OF_ITS_OWN,
    "session of a node not renewed": OF_ITS_OWN,
    "voter change failed": OF_ITS_OWN,
    "waiting for the controller quorum": "every ten seconds",
}
"""Events that no `LineRate` limits: why there are not many."""


def unlimited(tree: ast.AST, is_limited: bool = False) -> Iterator[str]:
    """The events that are logged without a `LineRate`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and not is_limited:
            asks = {one.func.attr for one in ast.walk(node.test) if isinstance(one, ast.Call) and is_method(one)}
            for part in node.body:
                yield from unlimited(ast.Module([part], []), is_limited=bool(asks & RATE))
            yield from unlimited(ast.Module(node.orelse, []))
        else:
            if isinstance(node, ast.Call) and not is_limited and logs(node):
                yield ast.literal_eval(node.args[0])
            yield from unlimited(node, is_limited)


def is_method(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute)


def logs(call: ast.Call) -> bool:
    """Whether a call logs a line at a level that is on by default."""
    methods = [one for one in ast.walk(call.func) if isinstance(one, ast.Attribute) and one.attr in LEVELS]
    return any(isinstance(one.value, ast.Name) and one.value.id == "log" and one.attr not in SILENT for one in methods)


def files() -> list[Path]:
    return [path for place in PLACES for path in sorted((ROOT / place).rglob("*.py"))]


def test_each_line_of_the_listeners_is_bounded() -> None:
    found = {event: path.name for path in files() for event in unlimited(ast.parse(path.read_text()))}
    assert found.keys() - BOUNDED_OTHERWISE.keys() == set(), found
    assert BOUNDED_OTHERWISE.keys() - found.keys() == set(), "no longer logged, or limited now"


def test_the_events_are_those_of_the_page() -> None:
    events = {one.event for one in events_in_sources()}
    assert BOUNDED_OTHERWISE.keys() <= events
    assert {"scrape refused", "more scrapes refused", "peer handshake refused", "authentication failed"} <= events


CASES = {
    "log.info('a')": ["a"],
    "log.debug('a')": [],
    "log.exception('a')": [],
    "(log.debug if usual else log.error)('a')": ["a"],
    "if lines.admits(host): log.info('a')": [],
    "if new and self._lines.admits(): log.info('a')": [],
    "if more := lines.left_out(): log.info('a', count=more)": [],
    "if lines.admits(host): pass\nelse: log.info('a')": ["a"],
    "if new: log.info('a')": ["a"],
    "if lines.admits(host):\n    for one in many: log.info('a')": [],
}


@pytest.mark.parametrize("code", CASES)
def test_each_kind_of_line_is_seen(code: str) -> None:
    assert list(unlimited(ast.parse(code))) == CASES[code]
