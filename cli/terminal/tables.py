"""Makes aligned text tables. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from minikafka.protocol.visible import visible


def table(titles: Sequence[str], rows: Sequence[Sequence[object]], *, indent: str = "") -> list[str]:
    """The lines of a table: upper-case titles, columns two spaces apart, numeric columns right-aligned.

    Control characters in cells are escaped, newlines too: a row is a line.
    """
    texts = [[visible(str(cell)) for cell in row] for row in rows]
    columns = list(zip(*[[title.upper() for title in titles], *texts], strict=True))
    widths = [max(map(len, column)) for column in columns]
    numeric = [bool(rows) and all(isinstance(row[place], int) for row in rows) for place in range(len(titles))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        ]
        return (indent + "  ".join(padded)).rstrip()

    return [line(cells) for cells in zip(*columns, strict=True)]


def numbers(values: Sequence[int]) -> str:
    """Node ids as text, separated by commas; `-` for none."""
    return ",".join(map(str, values)) or "-"
