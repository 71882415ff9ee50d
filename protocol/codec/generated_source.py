"""`Source` collects generated Python source: lines, indentation, and the objects that its names refer to."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from struct import Struct
from typing import Any

ARRAYS_READY = 16
"""The `struct` of an array of numbers is created in advance if the array is shorter than this."""


class Source:
    """The source of a function.

    Attributes:
        title: shown in tracebacks as the file name.
        names: the globals of the function.
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
        """Add a line at the current indentation."""
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, head: str) -> Generator[None]:
        """Add `head`; lines added inside the `with` are indented below it."""
        self.line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def variable(self, stem: str) -> str:
        """A new, unique variable name."""
        self._variables += 1
        return f"{stem}{self._variables}"

    def give(self, name: str, value: Any) -> str:
        """Make an object available to the source under `name`."""
        assert self.names.setdefault(name, value) is value, f"{name} refers to two objects"
        return name

    def give_class(self, cls: Any) -> str:
        """Make the class of a struct available to the source."""
        return self.give(f"C_{cls.__name__}", cls)

    def give_struct(self, codes: str, method: str) -> str:
        """Make `pack` or `unpack_from` of big-endian `codes` available to the source."""
        name = f"{method}_{codes.replace('?', '_')}"
        if name not in self.names:
            self.names[name] = getattr(Struct(">" + codes), method)
        return name

    def give_structs(self, code: str, method: str) -> str:
        """Make `pack` or `unpack_from` of 0, 1, 2, … numbers of one type available to the source."""
        name = f"{method}_each_{code.replace('?', '_')}"
        if name not in self.names:
            self.names[name] = tuple(getattr(Struct(f">{count}{code}"), method) for count in range(ARRAYS_READY))
        return name

    def compile(self, function: str) -> Callable[..., Any]:
        """Compile the source; returns the function of that name."""
        names = dict(self.names)
        exec(compile(self.text, f"<{self.title}>", "exec"), names)
        return names[function]
