"""The metrics of logins have the counts of each listener, under Kafka's names."""

from minikafka.broker.metrics.authentication_metrics import authentication_metrics
from minikafka.broker.security.authentication_record import AuthenticationRecord
from minikafka.controller.line_rate import LineRate


def test_each_count_of_a_listener_is_shown() -> None:
    record = AuthenticationRecord(LineRate(lambda: 0), 5, 4, 3, 2, 1)
    shown = {}
    for family in authentication_metrics({"CLIENT": record})():
        assert family is not None
        for values, value in family.samples:
            name, labels = family.sample_of(values)
            assert labels == {"listener": "CLIENT"}
            shown[name.removeprefix("kafka_server_socket_server_metrics_")] = value
    assert shown == {
        "successful_authentication_total": 5,
        "failed_authentication_total": 4,
        "successful_reauthentication_total": 3,
        "failed_reauthentication_total": 2,
        "expired_connections_killed_count": 1,
    }
