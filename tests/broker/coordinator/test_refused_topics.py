"""Topics that were not created on demand: each reason is news once, until the topic is created."""

from minikafka.broker.coordinator.refused_topics import TOPICS_MAX, RefusedTopics
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.messages.create_topics import CreatableTopicResult

REPLICATION = ErrorCode.INVALID_REPLICATION_FACTOR


def result(name: str, code: ErrorCode = REPLICATION, message: str | None = None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=message)


def test_a_reason_is_news_once_for_each_topic() -> None:
    topics = RefusedTopics()
    assert topics.news([result("a", message="three"), result("b")]) == {"a": "three", "b": REPLICATION.name}
    assert topics.news([result("a", message="three"), result("b")]) == {}
    assert topics.news([result("a", message="two"), result("b"), result("c")]) == {"a": "two", "c": REPLICATION.name}


def test_a_topic_that_exists_is_no_news_and_is_forgotten() -> None:
    topics = RefusedTopics()
    for code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
        assert topics.news([result("a")]) == {"a": REPLICATION.name}
        assert topics.news([result("a", code)]) == {}


def test_names_that_clients_choose_are_bounded() -> None:
    topics = RefusedTopics()
    for number in range(3 * TOPICS_MAX):
        assert topics.news([result(f"topic-{number}")])
    assert len(topics._reasons) <= TOPICS_MAX
    many = [result(f"many-{number}") for number in range(TOPICS_MAX + 1)]
    assert len(topics.news(many)) == len(many)
    assert not topics._reasons
