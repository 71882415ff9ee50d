"""`checks_arguments`: a class decorator that checks the arguments of a client's public methods by their annotations.

    @checks_arguments()
    class Admin:
        async def delete_topics(self, names: Iterable[str]) -> …     # a generator becomes a list, [b"t"] is refused

Each annotation becomes a `Kind` when the class is created; an annotation that has no `Kind` is an error at that time. A
call raises TypeError if a value does not have the parameter's kind, and ValueError if a value is out of range. Both
errors name the argument, the value given and what is allowed. A call with an unknown argument is refused in the same
way. A refused call has had no effect.
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
        """Convert the arguments to the declared kinds. Too many positional arguments are left for Python to refuse."""
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
    """Convert one argument to its kind. Raises TypeError or ValueError, whose message names the method."""
    try:
        return kind(value)
    except Refused as error:
        raise error.within(name).raised_by(method) from None


def checks_arguments(*, but: Iterable[str] = ()) -> Callable[[C], C]:
    """Make the public methods of a class check their arguments, except the methods in `but`, which do so themselves."""

    def decorate(cls: C) -> C:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                checked = _shown(method) if name in but else _checking(method, _Parameters(method))
                setattr(cls, name, _named_after(cls, checked))
        return cls

    return decorate


def knows_arguments(*, but: Iterable[str] = ()) -> Callable[[C], C]:
    """Make the public methods of a class refuse unknown arguments with an error that suggests the right ones.

    The methods in `but` do so themselves.
    """

    def decorate(cls: C) -> C:
        for name, method in list(vars(cls).items()):
            if inspect.isfunction(method) and not name.startswith("_"):
                setattr(cls, name, _shown(method) if name in but else _knowing(method))
        return cls

    return decorate


def _named_after(cls: type, method: Callable[..., Any]) -> Callable[..., Any]:
    """Show a method that is a function of another module as one that is written in the class."""
    signature = inspect.signature(method)
    first, *rest = signature.parameters.values()
    shown = [first.replace(name="self", annotation=inspect.Parameter.empty), *rest]
    method.__signature__ = signature.replace(parameters=shown)  # type: ignore[attr-defined]
    method.__qualname__ = f"{cls.__qualname__}.{method.__name__}"
    return method


def _shown(method: Callable[..., Any]) -> Callable[..., Any]:
    """Hide the `**unknown` parameter, which only serves to refuse unknown arguments, from the method's signature."""
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
