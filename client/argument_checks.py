"""`checks_arguments`: the public methods of a client check their arguments by the types that they declare.

    @checks_arguments()
    class Admin:
        async def delete_topics(self, names: Iterable[str]) -> …     # a generator becomes a list, [b"t"] is refused

Each annotation becomes a `Kind` when the class is made; an annotation without one is an error then. A call with a value
that is not of its parameter's kind raises TypeError, with one that is out of range ValueError. Both name the argument,
what was given and what is allowed. So does one with an argument that the method does not have. Nothing was done then.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar

from minikafka.client.argument_kinds import ANYTHING, Kind, Refused, declared_kind, one_of_several
from minikafka.client.unknown_arguments import refuse

C = TypeVar("C", bound=type)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class _Parameters:
    """The kinds of a method's parameters."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method.__name__
        self.in_order: list[tuple[str, Kind]] = []
        self.by_name: dict[str, Kind] = {}
        self.rest: tuple[str, Kind] | None = None
        for one in list(inspect.signature(method).parameters.values())[1:]:
            kind = declared_kind(one.annotation, method.__module__)
            if one.kind is one.VAR_POSITIONAL:
                self.rest = one.name, one_of_several(kind)
                continue
            self.by_name[one.name] = kind
            if one.kind is one.POSITIONAL_OR_KEYWORD:
                self.in_order.append((one.name, kind))

    def read(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments as the method wants them; if there are too many, Python complains of them."""
        path = ""
        try:
            found: list[Any] = []
            for index, value in enumerate(args):
                if index < len(self.in_order):
                    path, kind = self.in_order[index]
                elif self.rest is not None:
                    path, kind = f"{self.rest[0]}[{index - len(self.in_order)}]", self.rest[1]
                else:
                    path, kind = "", ANYTHING
                found.append(kind(value))
            for path, value in named.items():
                if path not in self.by_name:
                    refuse(self.method, [path], list(self.by_name))
                named[path] = self.by_name[path](value)
        except Refused as error:
            raise error.within(path).raised_by(self.method) from None
        return found, named


def read_argument(method: str, name: str, kind: Kind, value: Any) -> Any:
    """One argument as the method wants it. Raises TypeError, ValueError."""
    try:
        return kind(value)
    except Refused as error:
        raise error.within(name).raised_by(method) from None


def checks_arguments(*, but: Iterable[str] = ()) -> Callable[[C], C]:
    """Have the public methods that a class defines check their arguments; `but` those that do it themselves."""

    def decorate(cls: C) -> C:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _shown(method) if name in but else _checking(method, _Parameters(method)))
        return cls

    return decorate


def knows_arguments(*, but: Iterable[str] = ()) -> Callable[[C], C]:
    """Have the public methods of a class say what they have in place of an argument that they do not have."""

    def decorate(cls: C) -> C:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _shown(method) if name in but else _knowing(method))
        return cls

    return decorate


def _shown(method: Callable[..., Any]) -> Callable[..., Any]:
    """Show users a method without the `**unknown` with which it says what it has instead."""
    signature = inspect.signature(method)
    kept = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    method.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return method


def _knowing(method: Callable[..., Any]) -> Callable[..., Any]:
    known = [one.name for one in list(inspect.signature(method).parameters.values())[1:] if one.kind in _NAMED]

    @wraps(method)
    def knowing(self: Any, *args: Any, **named: Any) -> Any:
        if named:
            refuse(method.__name__, [one for one in named if one not in known], known)
        return method(self, *args, **named)

    return knowing


def _checking(method: Callable[..., Any], parameters: _Parameters) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @wraps(method)
        async def checked_async(self: Any, *args: Any, **named: Any) -> Any:
            args_read, named_read = parameters.read(args, named)
            return await method(self, *args_read, **named_read)

        return checked_async

    @wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        args_read, named_read = parameters.read(args, named)
        return method(self, *args_read, **named_read)

    return checked
