"""What the log says of logins: a bounded number of lines, since strangers cause them."""

import structlog

from minikafka.broker.connections.request_context import ConnectionInfo
from minikafka.broker.security.authentication_record import AuthenticationRecord
from minikafka.controller.line_rate import LineRate


def test_of_many_failures_of_an_address_in_a_second_some_are_logged_and_the_others_counted() -> None:
    times = [0]
    record = AuthenticationRecord(LineRate(lambda: times[0], of_subject_max=10))
    client, other = (ConnectionInfo("L", f"10.0.0.{number}") for number in (1, 2))
    with structlog.testing.capture_logs() as logs:
        for _ in range(15):
            record.failure(client, "PLAIN", "wrong", again=False)
        record.failure(other, "PLAIN", "wrong", again=True)
        assert [one["client"] for one in logs] == ["10.0.0.1"] * 10 + ["10.0.0.2"]
        times[0] = 1000
        record.failure(client, "PLAIN", "wrong", again=False)
    assert [(one["event"], one.get("count")) for one in logs[11:]] == [
        ("more authentications failed", 5),
        ("authentication failed", None),
    ]
    assert (record.failed, record.reauthentication_failed) == (16, 1)
