"""Parsing of points in time."""

from datetime import datetime

import pytest

from minikafka.cli.arguments.times import parse_time

NOW_MS = 1_767_182_400_000
MINUTE_MS = 60_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", NOW_MS),
        ("1700000000123", 1_700_000_000_123),
        ("0", 0),
        ("-10m", NOW_MS - 10 * MINUTE_MS),
        ("-2h", NOW_MS - 120 * MINUTE_MS),
        ("-1.5h", NOW_MS - 90 * MINUTE_MS),
        ("-3d", NOW_MS - 3 * 24 * 60 * MINUTE_MS),
        ("-1w", NOW_MS - 7 * 24 * 60 * MINUTE_MS),
        ("-30s", NOW_MS - 30_000),
        ("-250ms", NOW_MS - 250),
        ("-9999w", 0),
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T01:00:00.250+01:00", 250),
        (" 1970-01-02T00:00:00Z ", 86_400_000),
        ("2013-07-01", round(datetime(2013, 7, 1).timestamp() * 1000)),
        ("2013-07-01 12:30", round(datetime(2013, 7, 1, 12, 30).timestamp() * 1000)),
    ],
)
def test_accepted_formats(text: str, expected: int) -> None:
    assert parse_time(text, NOW_MS) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "10m", "-10", "-10x", "12:30", "2013-13-01", "-1", "1e9"])
def test_other_formats_are_an_error_that_lists_the_accepted_ones(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time: write it like 2026-01-31T12:00:00Z.*-10m"):
        parse_time(text, NOW_MS)
