"""Broker sessions: contact, expiry, lost connections, applied offsets."""

from minikafka.controller.decisions.broker_sessions import BrokerSessions

TIMEOUT_MS, LOST_MS = 1000, 300


def sessions() -> BrokerSessions:
    return BrokerSessions(TIMEOUT_MS, LOST_MS)


def test_a_session_expires_after_the_timeout_since_the_last_contact() -> None:
    known = sessions()
    known.contact(1, epoch=5, now_ms=100)
    known.contact(2, epoch=6, now_ms=600)
    assert known.deadline_ms([1, 2]) == 1100
    assert known.expired(1099) == []
    assert known.expired(1100) == [1]
    known.contact(1, epoch=5, now_ms=1100)
    assert known.expired(1600) == [2]
    assert known.expired(9999) == [1, 2]


def test_a_reset_connection_shortens_the_session() -> None:
    known = sessions()
    known.contact(1, epoch=0, now_ms=0)
    known.lost_connection(1, now_ms=200)
    known.lost_connection(2, now_ms=200)
    assert known.expired(499) == []
    assert known.expired(500) == [1]


def test_contact_after_a_reset_connection_restores_the_full_session() -> None:
    known = sessions()
    known.contact(1, epoch=0, now_ms=0)
    known.lost_connection(1, now_ms=200)
    known.contact(1, epoch=0, now_ms=400)
    assert known.expired(1399) == []


def test_a_reset_connection_never_extends_a_session() -> None:
    known = sessions()
    known.contact(1, epoch=0, now_ms=0)
    known.lost_connection(1, now_ms=900)
    assert known.expired(1000) == [1]


def test_contact_of_an_older_registration_is_ignored() -> None:
    known = sessions()
    known.contact(1, epoch=7, now_ms=0, applied_offset=3)
    known.contact(1, epoch=6, now_ms=900, applied_offset=30)
    assert known.expired(1000) == [1]
    assert known.applied(1) == 3
    assert not known.is_live(1, 6, 500)
    assert known.is_live(1, 7, 500)
    assert not known.is_live(1, 7, 1000)
    assert not known.is_live(2, 7, 0)


def test_a_new_registration_has_applied_nothing_yet() -> None:
    known = sessions()
    known.contact(1, epoch=7, now_ms=0, applied_offset=30)
    known.contact(1, epoch=8, now_ms=0)
    assert known.applied(1) == -1


def test_the_applied_offset_of_a_broker_never_decreases() -> None:
    known = sessions()
    known.contact(1, epoch=0, now_ms=0, applied_offset=9)
    known.contact(1, epoch=0, now_ms=0, applied_offset=4)
    assert known.applied(1) == 9
    assert known.applied(2) == -1


def test_a_broker_is_caught_up_once_it_has_applied_its_own_registration() -> None:
    known = sessions()
    known.wrote(1, epoch=0, now_ms=0, end_offset=12)
    assert not known.is_caught_up(1, 11)
    assert known.is_caught_up(1, 12)


def test_the_others_are_caught_up_once_all_of_them_are() -> None:
    known = sessions()
    known.wrote(1, epoch=0, now_ms=0, end_offset=12)
    known.contact(2, epoch=0, now_ms=0, applied_offset=12)
    known.contact(3, epoch=0, now_ms=0, applied_offset=11)
    assert known.others_caught_up(1, [1, 2])
    assert not known.others_caught_up(1, [1, 2, 3])
    known.contact(3, epoch=0, now_ms=0, applied_offset=13)
    assert known.others_caught_up(1, [1, 2, 3])


def test_reset_starts_a_session_for_every_broker_and_an_offset_to_catch_up_with() -> None:
    known = sessions()
    known.contact(9, epoch=0, now_ms=0)
    known.reset(5000, {1: 3, 2: 4}, end_offset=77)
    assert known.expired(5999) == []
    assert known.expired(6000) == [1, 2]
    assert not known.is_caught_up(1, 76)
    assert known.is_caught_up(1, 77)
    assert known.applied(1) == -1


def test_an_unregistered_broker_has_no_session() -> None:
    known = sessions()
    known.contact(1, epoch=0, now_ms=0)
    known.forget(1)
    known.forget(1)
    assert known.expired(99999) == []
    assert known.deadline_ms([1]) is None
