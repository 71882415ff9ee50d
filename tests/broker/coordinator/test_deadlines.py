"""Deadlines compared with a plain dictionary; a million heartbeats leave no garbage."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minikafka.broker.coordinator.deadlines import Deadlines

STEPS = st.lists(
    st.tuples(st.sampled_from(["set", "cancel", "due"]), st.sampled_from("abcde"), st.integers(0, 50)), max_size=60
)


@given(STEPS)
def test_deadlines_behave_like_a_searched_dictionary(steps: list[tuple[str, str, int]]) -> None:
    deadlines: Deadlines[str] = Deadlines()
    plain: dict[str, int] = {}
    for what, name, number in steps:
        if what == "set":
            deadlines.set(name, number)
            plain[name] = number
        elif what == "cancel":
            deadlines.cancel(name)
            plain.pop(name, None)
        else:
            met = list(iter(lambda now_ms=number: deadlines.pop(now_ms), None))
            assert sorted(met) == sorted(key for key, at in plain.items() if at <= number)
            assert [plain[key] for key in met] == sorted(plain[key] for key in met)
            plain = {key: at for key, at in plain.items() if at > number}
        assert deadlines.next_ms() == min(plain.values(), default=None)
        assert len(deadlines) == len(plain)
        assert {name: deadlines.get(name) for name in plain} == plain


def test_moving_a_deadline_back_and_forth_leaves_no_garbage() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for number in range(10_000):
        deadlines.set("late", 1_000_000 + number)
        deadlines.set("to and fro", 500_000 - number)
        deadlines.set(f"passing {number}", number)
        deadlines.cancel(f"passing {number}")
    assert len(deadlines._heap) < 200
    assert deadlines.next_ms() == 500_000 - 9_999
