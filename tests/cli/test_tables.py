"""Aligned tables, and progress on terminals that have nothing better."""

import io

from minikafka.cli.progress import PlainProgress, plain_line
from minikafka.cli.tables import counted, numbers, table


def test_numbers_stand_to_the_right_and_text_to_the_left() -> None:
    assert table(("topic", "partitions"), [["flights", 6], ["w", 12]]) == [
        "TOPIC    PARTITIONS",
        "flights           6",
        "w                12",
    ]


def test_no_blanks_at_the_end_of_a_line() -> None:
    assert table(("a", "long title"), [["x", "y"]], indent="  ") == ["  A  LONG TITLE", "  x  y"]


def test_a_table_without_rows_has_titles() -> None:
    assert table(("a", "b"), []) == ["A  B"]


def test_words_for_numbers() -> None:
    assert (numbers([1, 2]), numbers([])) == ("1,2", "-")
    assert (counted(1, "record"), counted(2000, "record")) == ("1 record", "2,000 records")


def test_a_plain_progress_writes_over_itself_and_leaves_nothing() -> None:
    out = io.StringIO()
    with PlainProgress(out, 2 << 20) as shown:
        shown.update(1000, 1 << 20)
    assert out.getvalue() == "\r1,000 records, 1.0 MB (50%)\r" + " " * 27 + "\r"
    assert plain_line(1, 0, None) == "1 record, 0.0 MB"
