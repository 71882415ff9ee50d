"""A handler awaits nothing of trio before it has a task, that is before `in_task()` or `offered(...)`.

`minikafka.storage.waits.begin` finds a wait without a task when it happens; this finds it before. From each handler,
and each coroutine that is passed to `begin`, the calls are followed up to where there surely is a task. Types are not
known here: names of attributes are those of their classes, and a call of another name means each coroutine function of
that name.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("broker", "controller", "storage")
WAITS = {"in_task", "offered"}
"""The waits of `storage/waits.py`: after them there is a task."""
VALUES = {"begun", "one", "rest", "reply", "what"}
"""Names of awaited values: what was begun, and coroutines, which are followed where they are made."""
_PAUSES, _RUN = (("Pauses", "__call__"),), (("LargeMessages", "run"),)
CALLBACKS = {
    "pauses": _PAUSES,
    "self._pauses": _PAUSES,
    "Pauses(every=1)": _PAUSES,
    "run": _RUN,
    "self._run": _RUN,
    "route.handle": (),
    "step": (("CoordinatorRuntime", "until_committed"), ("Completions", "_finish")),
    "controller.describe_quorum": (("QuorumController", "describe_quorum"),),
    "self._next_producer_id": (("ProducerIds", "next"),),
    "self._allocate": (("QuorumController", "allocate_producer_ids"),),
}
"""The class and the name of functions that objects have received as arguments."""


@dataclass(frozen=True)
class Place:
    """A coroutine function, and its class if it is a method."""

    file: str
    owner: str
    function: ast.AsyncFunctionDef

    def __str__(self) -> str:
        return f"{self.file}:{self.function.lineno} {self.function.name}"


class Code:
    """The coroutine functions and the names of the classes in some files, given as texts by their names."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.places: dict[str, list[Place]] = {}
        self.classes: set[str] = set()
        for file, text in files.items():
            self._collect(ast.parse(text), file, "")

    def _collect(self, tree: ast.AST, file: str, owner: str) -> None:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.AsyncFunctionDef):
                self.places.setdefault(node.name, []).append(Place(file, owner, node))
            if isinstance(node, ast.ClassDef):
                self.classes.add(node.name)
            self._collect(node, file, node.name if isinstance(node, ast.ClassDef) else owner)

    def called(self, call: ast.Call, caller: Place, *, is_awaited: bool = True) -> list[Place]:
        """The coroutine functions that a call may mean.

        The function of the same class or file comes first; then, as attributes are named after their classes, those of
        that class; then all of that name, if the call is awaited: others are mostly no coroutine functions.
        """
        if (received := CALLBACKS.get(ast.unparse(call.func))) is not None:
            return [place for owner, name in received for place in self.places[name] if place.owner == owner]
        places = self.places.get(name_of(call) or "", [])
        match call.func:
            case ast.Attribute(ast.Name("self")):
                return [one for one in places if (one.file, one.owner) == (caller.file, caller.owner)]
            case ast.Attribute(ast.Name(part)) | ast.Attribute(ast.Attribute(_, part)):
                owner = "".join(map(str.capitalize, part.split("_")))
                near = [one for one in places if one.owner == owner]
                if not near and owner in self.classes:
                    return []
            case _:
                near = [one for one in places if one.file == caller.file]
                places = [one for one in places if not one.owner]
        return near or (places if is_awaited else [])

    def gives_task(self, place: Place) -> bool:
        """Whether there is a task when the function returns, however it does; as `pause`."""
        first = place.function.body[1 if ast.get_docstring(place.function) else 0]
        match first:
            case ast.Expr(ast.Await(ast.Call() as call)):
                return name_of(call) in WAITS
        return False


class Reader:
    """Reads one coroutine function up to where it surely has a task, in the order in which it runs.

    Attributes:
        called: The coroutine functions that it calls before that.
        wrong: What it awaits before that and must not.
    """

    def __init__(self, code: Code, place: Place) -> None:
        self._code = code
        self._place = place
        self._looked_at: set[str] = set()
        self.called: list[Place] = []
        self.wrong: list[str] = []

    def block(self, statements: Sequence[ast.stmt], has_task: bool) -> bool:
        """Read statements; returns whether there is a task after them."""
        for statement in statements:
            has_task = self._statement(statement, has_task)
            if isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break):
                return True  # What follows does not run.
        return has_task

    def _statement(self, node: ast.stmt, has_task: bool) -> bool:
        match node:
            case ast.AsyncFunctionDef() | ast.FunctionDef() | ast.ClassDef():
                return has_task
            case ast.If(test, body, orelse):
                has_task = self._expression(test, has_task)
                in_body = self.block(body, has_task or ast.unparse(test) in self._looked_at)
                if in_body and not has_task:
                    self._looked_at.add(ast.unparse(test))  # If this is true later on, it was before: there is a task.
                return all([in_body, self.block(orelse, has_task)])
            case ast.While(test, body, orelse):
                has_task = self._expression(test, has_task)
                self.block(body, has_task or ast.unparse(test) in self._looked_at)
                return self.block(orelse, has_task)
            case ast.For(_, iterated, body, orelse) | ast.AsyncFor(_, iterated, body, orelse):
                has_task = self._entered(iterated, has_task, waits=isinstance(node, ast.AsyncFor))
                self.block(body, has_task)
                return self.block(orelse, has_task)
            case ast.Try(body, handlers, orelse, final):
                after = self.block(orelse, self.block(body, has_task))
                after = all([after, *(self.block(handler.body, has_task) for handler in handlers)])
                return self.block(final, has_task) or after
            case ast.With(items, body) | ast.AsyncWith(items, body):
                for item in items:
                    waits = isinstance(node, ast.AsyncWith) or ast.unparse(item.context_expr).startswith("trio.")
                    has_task = self._entered(item.context_expr, has_task, waits=waits)
                return self.block(body, has_task)
            case _:
                return self._expression(node, has_task)

    def _entered(self, node: ast.expr, has_task: bool, *, waits: bool) -> bool:
        has_task = self._expression(node, has_task)
        return has_task or (waits and self._awaited(node))

    def _expression(self, node: ast.AST, has_task: bool) -> bool:
        """Read an expression or a simple statement, inner parts first."""
        if isinstance(node, ast.Lambda):
            return has_task
        for child in ast.iter_child_nodes(node):
            has_task = self._expression(child, has_task)
        if isinstance(node, ast.Call) and not has_task:
            self.called += self._code.called(node, self._place, is_awaited=False)
            for begun in node.args if name_of(node) in ("begin", "completed", "before") else ():
                self.called += self._code.called(begun, self._place) if isinstance(begun, ast.Call) else []
        if isinstance(node, ast.Await) and not has_task:
            return self._awaited(node.value)
        return has_task

    def _awaited(self, node: ast.expr) -> bool:
        """Note what is awaited without a task; returns whether there is a task after it."""
        if isinstance(node, ast.IfExp):
            return all([self._awaited(node.body), self._awaited(node.orelse)])
        if not isinstance(node, ast.Call):
            places: list[Place] = []
            is_known = ast.unparse(node) in VALUES
        elif name_of(node) in WAITS:
            return True
        else:
            places = self._code.called(node, self._place)
            is_known = bool(places) or ast.unparse(node.func) in CALLBACKS
            is_known = is_known and not ast.unparse(node).startswith("trio.")
        if not is_known:
            self.wrong.append(f"line {node.lineno}: {ast.unparse(node)}")
        return bool(places) and all(self._code.gives_task(place) for place in places)


def name_of(call: ast.Call) -> str | None:
    """The name of the function that is called, without what it is a part of."""
    match call.func:
        case ast.Attribute(_, name) | ast.Name(name):
            return name
    return None


def roots(code: Code, files: Mapping[str, str]) -> Iterator[Place]:
    """The handlers, and what is passed to `begin`."""
    yield from (place for place in code.places["handle"] if place.file.startswith("broker/apis/"))
    for file, text in files.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and name_of(node) == "begin" and node.args:
                begun = node.args[0]
                places = code.places.get(name_of(begun) or "", []) if isinstance(begun, ast.Call) else []
                yield from (place for place in places if place.file == file)


def checked(files: Mapping[str, str]) -> tuple[int, list[str]]:
    """How many coroutine functions may begin without a task, and what they await before there is one."""
    code = Code(files)
    left, seen, wrong = list(roots(code, files)), set[Place](), list[str]()
    while left:
        place = left.pop()
        if place not in seen:
            seen.add(place)
            reader = Reader(code, place)
            reader.block(place.function.body, has_task=False)
            wrong += [f"{place}: {text}" for text in reader.wrong]
            left += reader.called
    return len(seen), wrong


def test_what_begins_without_a_task_waits_for_a_task_first() -> None:
    paths = sorted(file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    count, wrong = checked({path.relative_to(ROOT).as_posix(): path.read_text() for path in paths})
    assert not wrong, "\n".join(sorted(wrong))
    assert count > 90


RIGHT = {
    "nothing": "pass",
    "a task first": "await in_task(); await trio.sleep(1)",
    "a task or an offer": "await (in_task() if few is None else offered(few)); await event.wait()",
    "looked at again": """
if not self.done:
    await in_task()
while not self.done:
    await event.wait()""",
    "a helper that waits for a task": "await pause(); await trio.sleep(1)",
    "a helper that waits in its task": "await helper()",
}
WRONG = {
    "trio": "await trio.sleep(1)",
    "an event": "await event.wait()",
    "a scope": "with trio.move_on_after(1): await in_task()",
    "a block": "async with lock: pass",
    "in a helper": "await careless()",
    "a task in one case only": """
if done:
    await in_task()
await trio.sleep(1)""",
    "a task after an error only": """
try:
    await helper()
except OSError:
    await in_task()
await trio.sleep(1)""",
    "a task in a loop that may not run": """
for one in many:
    await in_task()
await trio.sleep(1)""",
    "in a comparison": "return await lock.acquire() > 1",
}
HELPERS = """
async def pause():
    await in_task()
    await trio.lowlevel.checkpoint()
async def helper():
    if wanted:
        await pause()
        await trio.sleep(1)
async def careless():
    await trio.sleep(1)
async def not_begun():
    await trio.sleep(1)
"""


@pytest.mark.parametrize("case", [*RIGHT, *WRONG])
def test_each_kind_of_wait_is_seen(case: str) -> None:
    body = RIGHT.get(case) or WRONG[case]
    handler = "async def handle(request, context):\n" + textwrap.indent(body.strip(), "    ")
    _, wrong = checked({"broker/apis/some.py": HELPERS + handler})
    assert bool(wrong) == (case in WRONG), wrong
