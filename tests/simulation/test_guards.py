"""The guards of secured clusters notice answers that a broker must not give."""

from __future__ import annotations

import pytest

from simulation.versions import Versions


def answered(versions: Versions[str], broker: str, value: str) -> None:
    versions.observer(broker)(value.__eq__, f"answers {value}")


def known(*values: str) -> Versions[str]:
    """Versions whose changes have all succeeded."""
    versions = Versions(values[0])
    for value in values[1:]:
        versions.change(value)
        versions.is_known = True
    return versions


def test_a_broker_may_be_behind_and_never_goes_back() -> None:
    versions = known("a", "b", "c")
    for value in ("a", "b", "b"):
        answered(versions, "one", value)
    with pytest.raises(AssertionError, match="one answers a: from version 1 on"):
        answered(versions, "one", "a")
    answered(versions, "other", "a")


def test_a_change_that_nobody_asked_for_is_noticed() -> None:
    with pytest.raises(AssertionError, match="answers c"):
        answered(known("a", "b"), "one", "c")


def test_an_answer_to_an_earlier_request_may_come_later() -> None:
    versions = known("a", "b")
    earlier = versions.observer("one")
    answered(versions, "one", "b")
    earlier("a".__eq__, "answers a")
    with pytest.raises(AssertionError):
        answered(versions, "one", "a")


def test_a_change_of_unknown_outcome_may_be_in_force_or_not() -> None:
    versions = known("a")
    versions.change("b")
    assert versions.is_in_force("one"), "it need not be"
    for value in ("a", "b"):
        answered(versions, "one", value)
    with pytest.raises(AssertionError, match="two changes at a time"):
        versions.change("c")


def test_the_last_version_is_in_force_once_an_answer_since_then_shows_it() -> None:
    versions = known("a", "b", "a")
    assert not versions.is_in_force("one")
    answered(versions, "one", "b")
    assert not versions.is_in_force("one")
    answered(versions, "one", "a")
    assert versions.is_in_force("one")
    versions.change("a")
    versions.is_known = True
    assert not versions.is_in_force("one")
