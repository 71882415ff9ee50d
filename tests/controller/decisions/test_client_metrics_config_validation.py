"""Client metrics subscriptions: which patterns may select clients."""

from __future__ import annotations

import pytest

from minikafka.controller.decisions.client_metrics_config_validation import check
from minikafka.protocol.errors import InvalidConfigError

ONLY_JAVAS = ["(?=a)a", "(?<!a)b", r"(a)\1", "a*+", "(?>a)"]


@pytest.mark.parametrize("pattern", [*ONLY_JAVAS, "(", "[", "*a", "a{99999999999}", "(" * 3000, "a" * 32_000 + "("])
def test_a_pattern_that_is_none_or_that_backtracks_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidConfigError, match="Illegal client matching pattern") as refused:
        check("subscription", {"match": f"client_id={pattern}"})
    assert len(refused.value.message) <= 2_000


@pytest.mark.parametrize("pattern", ["([a-z]+-?)+[0-9]", "a.*|b", r"\d{3}", "(?i)app", ""])
def test_patterns_of_re2_are_taken(pattern: str) -> None:
    check("subscription", {"match": f"client_id={pattern}"})
