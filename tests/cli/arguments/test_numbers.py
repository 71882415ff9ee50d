"""Numbers of the command line are whole numbers of ASCII digits that the fields of Kafka's requests can hold."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.cli.arguments.numbers import Whole, whole
from minikafka.cli.arguments.options import Seconds
from minikafka.cli.main import cli
from minikafka.cli.reference_page import commands

NO_NUMBERS = ["", " ", "-", "+", "1_000", "1e3", "1.0", "0x10", "٣", "²", "--1", "abc", "1 2", "9" * 5_000, "nan"]


@given(st.sampled_from([16, 32, 64]), st.integers(-(1 << 70), 1 << 70))
def test_a_number_is_taken_if_its_field_holds_it(bits: int, number: int) -> None:
    held = -(1 << (bits - 1)) <= number < 1 << (bits - 1)
    assert whole(str(number), bits=bits) == (number if held else None)
    assert whole(str(number), bits=bits, least=1) == (number if held and number >= 1 else None)


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_other_texts_are_no_numbers(text: str) -> None:
    assert whole(text) is None
    with pytest.raises(click.BadParameter, match=r"is not a whole number|is out of range: 0 to 9223372036854775807"):
        Whole(0).convert(text, None, None)


@pytest.mark.parametrize(("kind", "text"), [(Whole(1, 5), "6"), (Whole(1, bits=32), "0"), (Whole(bits=16), "40000")])
def test_the_range_is_told(kind: Whole, text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is out of range: -?\d+ to \d+ are allowed"):
        kind.convert(text, None, None)


@pytest.mark.parametrize("path", [path for path, _ in commands(cli)], ids=lambda path: " ".join(path) or "minikafka")
def test_no_option_takes_other_numbers(path: tuple[str, ...]) -> None:
    for one in dict(commands(cli))[path].params:
        kinds = click.types.IntParamType, click.types.FloatParamType
        assert not isinstance(one.type, kinds) or isinstance(one.type, Whole | Seconds), one.name


@pytest.mark.parametrize("text", ["x", "", "1,5", "nan", "inf", "1s"])
def test_what_is_no_number_of_seconds_is_said_to_be_none(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"^'.*' is not a number of seconds$"):
        Seconds(0.1).convert(text, None, None)
    assert Seconds(0.1).convert("1.5", None, None) == 1.5
