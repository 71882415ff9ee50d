"""Aligned tables, and the plain progress line."""

import io

from minikafka.cli.terminal.progress import PlainProgress, plain_line
from minikafka.cli.terminal.tables import numbers, table


def test_numbers_are_right_aligned_and_text_left_aligned() -> None:
    assert table(("topic", "partitions"), [["flights", 6], ["w", 12]]) == [
        "TOPIC    PARTITIONS",
        "flights           6",
        "w                12",
    ]


def test_lines_have_no_trailing_spaces() -> None:
    assert table(("a", "long title"), [["x", "y"]], indent="  ") == ["  A  LONG TITLE", "  x  y"]


def test_a_table_without_rows_has_titles() -> None:
    assert table(("a", "b"), []) == ["A  B"]


def test_formatting_of_numbers() -> None:
    assert (numbers([1, 2]), numbers([])) == ("1,2", "-")


def test_the_plain_progress_line_is_overwritten_and_erased() -> None:
    out = io.StringIO()
    with PlainProgress(out, 2 << 20) as shown:
        shown.update(1000, 1 << 20)
    assert out.getvalue() == "\r1,000 records, 1.0 MB (50%)\r" + " " * 27 + "\r"
    assert plain_line(1, 0, None) == "1 record, 0.0 MB"
