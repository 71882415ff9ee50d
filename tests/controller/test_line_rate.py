"""How many lines about what strangers do are written in a second."""

from minikafka.controller.line_rate import LINES_MAX, LineRate


def test_each_subject_has_its_lines_and_all_subjects_together() -> None:
    rate = LineRate(lambda: 0, of_subject_max=2)
    assert rate.left_out() == 0
    assert [rate.admits("a") for _ in range(3)] == [True, True, False]
    admitted = [rate.admits(f"host-{number}") for number in range(LINES_MAX)]
    assert admitted == [True] * (LINES_MAX - 2) + [False] * 2


def test_the_next_second_says_once_how_many_lines_were_left_out() -> None:
    times = [0.0]
    rate = LineRate(lambda: times[0], of_subject_max=1)
    assert [rate.left_out(), rate.admits("a"), rate.admits("a"), rate.left_out()] == [0, True, False, 0]
    times[0] = 1000
    assert [rate.left_out(), rate.left_out(), rate.admits("a")] == [1, 0, True]
