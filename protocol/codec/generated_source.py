"""Python source in the making: lines, indentation, and the objects its names stand for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from struct import Struct
from typing import Any

ARRAYS_READY = 16
"""Arrays of fewer numbers than this have their `struct` made in advance."""


class Source:
    """One function's source.

    Attributes:
        title: what a traceback shows in place of a file's name.
        names: what the source may refer to.
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.names: dict[str, Any] = {}
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0

    @property
    def text(self) -> str:
        """The source so far."""
        return "\n".join(self._lines) + "\n"

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """`head`, and all lines of the `with` under it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, stem: str) -> str:
        """A name that nothing else has."""
        self._variables += 1
        return f"{stem}{self._variables}"

    def give(self, name: str, value: Any) -> str:
        """Let the source refer to an object."""
        assert self.names.setdefault(name, value) is value, f"{name} stands for two things"
        return name

    def give_class(self, cls: Any) -> str:
        """Let the source refer to a struct's class."""
        return self.give(f"C_{cls.__name__}", cls)

    def give_struct(self, codes: str, method: str) -> str:
        """Let the source refer to `pack` or `unpack_from` of big-endian `codes`."""
        name = f"{method}_{codes.replace('?', '_')}"
        if name not in self.names:
            self.names[name] = getattr(Struct(">" + codes), method)
        return name

    def give_structs(self, code: str, method: str) -> str:
        """Let the source refer to `pack` or `unpack_from` of 0, 1, 2, … numbers of one type."""
        name = f"{method}_each_{code.replace('?', '_')}"
        if name not in self.names:
            self.names[name] = tuple(getattr(Struct(f">{count}{code}"), method) for count in range(ARRAYS_READY))
        return name

    def compile(self, function: str) -> Callable[..., Any]:
        """The function of that name that the source defines."""
        names = dict(self.names)
        exec(compile(self.text, f"<{self.title}>", "exec"), names)
        return names[function]
