"""The parts of a request that the receiving node answers and that it forwards to the active controller."""

from random import Random
from typing import Any

from support.decided_cluster import DecidedCluster
from support.images import name_of, static

from minikafka.controller.decisions import forwarding_rules
from minikafka.controller.decisions.decision import Context
from minikafka.controller.decisions.request_table import DECISIONS
from minikafka.controller.security.access import Access
from minikafka.protocol.messages import alter_configs as replacing
from minikafka.protocol.messages import incremental_alter_configs as altering
from minikafka.protocol.messages.create_topics import CreateTopicsRequest
from minikafka.storage.steps import at_once

TOPIC, BROKER, LOGGER = 2, 4, 8


def split_of(nodes: "Nodes", request: Any) -> forwarding_rules.Split:
    context = Context(static(2), Random(0), 1, nodes.levels)
    return at_once(forwarding_rules.splitting(nodes.cluster.image, request, context))


class Nothing:
    """An authorizer that allows nothing."""

    def allows(self, *asked: object, log_denied: bool) -> bool:
        return False

    def allows_any(self, *asked: object) -> bool:
        return False


class Nodes:
    """Node 2 receives the requests, node 1 is the active controller."""

    def __init__(self) -> None:
        self.cluster = DecidedCluster()
        self.cluster.topic((1, 2))
        self.levels = {"root": "INFO", "minikafka": "INFO"}
        self.forwarded: list[tuple[int, str]] | None = None

    def ask(
        self, *resources: tuple[int, str, str, str | None], incremental: bool = True, validate: bool = False
    ) -> list[str]:
        """The errors by resource, in the order of the request."""
        request: Any
        if incremental:
            request = altering.IncrementalAlterConfigsRequest(
                resources=[
                    altering.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=[altering.AlterableConfig(name=key, config_operation=value is None, value=value)],
                    )
                    for kind, name, key, value in resources
                ],
                validate_only=validate,
            )
        else:
            request = replacing.AlterConfigsRequest(
                resources=[
                    replacing.AlterConfigsResource(
                        resource_type=kind,
                        resource_name=name,
                        configs=[replacing.AlterableConfig(name=key, value=value)],
                    )
                    for kind, name, key, value in resources
                ],
                validate_only=validate,
            )
        split = split_of(self, request)
        self.levels.update(split.log_levels)
        self.forwarded = None
        response = None
        if split.request is not None:
            self.forwarded = [(one.resource_type, one.resource_name) for one in split.request.resources]
            deciding = Context(static(1), Random(0), 1, {"root": "INFO"}, forwarded=True)
            decide = DECISIONS[type(request)]
            response = self.cluster.carry_out(decide(self.cluster.image, split.request, deciding))
        merged = split.merge(response)
        asked = [(kind, name) for kind, name, *_ in resources]
        assert [(one.resource_type, one.resource_name) for one in merged.responses] == asked
        return [name_of(one.error_code) for one in merged.responses]


def test_configs_of_a_broker_are_changed_on_that_broker() -> None:
    nodes = Nodes()
    assert nodes.ask((BROKER, "2", "background.threads", "9")) == ["NONE"]
    assert nodes.forwarded == [(BROKER, "2")]
    assert nodes.cluster.image.config(BROKER, "2") == {"background.threads": "9"}
    assert nodes.ask((BROKER, "1", "background.threads", "9"), (BROKER, "x", "a", "b")) == ["INVALID_REQUEST"] * 2
    assert nodes.forwarded is None


def test_cluster_wide_configs_are_changed_on_any_node() -> None:
    nodes = Nodes()
    assert nodes.ask((BROKER, "", "background.threads", "9")) == ["NONE"]
    assert nodes.cluster.image.config(BROKER, "")["background.threads"] == "9"


def test_values_that_do_not_fit_the_receiving_broker_are_not_forwarded() -> None:
    nodes = Nodes()
    for broker in ("2", ""):
        assert nodes.ask((BROKER, broker, "background.threads", "1")) == ["INVALID_REQUEST"]
        assert nodes.forwarded is None
    assert nodes.ask((BROKER, "", "max.connections", "0"), (TOPIC, "t", "retention.ms", "5")) == [
        "INVALID_REQUEST",
        "NONE",
    ]
    assert nodes.forwarded == [(TOPIC, "t")]


def test_log_levels_are_changed_on_the_receiving_node() -> None:
    nodes = Nodes()
    assert nodes.ask((LOGGER, "2", "minikafka", "DEBUG"), (LOGGER, "1", "root", "WARN")) == ["NONE", "INVALID_REQUEST"]
    assert nodes.levels == {"root": "INFO", "minikafka": "DEBUG"}
    assert nodes.forwarded is None
    assert nodes.ask((LOGGER, "2", "minikafka", "WARN"), validate=True) == ["NONE"]
    assert nodes.levels["minikafka"] == "DEBUG"


def test_responses_are_in_the_order_of_the_request() -> None:
    nodes = Nodes()
    asked = [
        (TOPIC, "t", "retention.ms", "5"),
        (BROKER, "3", "background.threads", "9"),
        (TOPIC, "nope", "retention.ms", "5"),
        (LOGGER, "2", "root", "WARN"),
        (BROKER, "2", "background.threads", "9"),
    ]
    errors = nodes.ask(*asked)
    assert errors == ["NONE", "INVALID_REQUEST", "UNKNOWN_TOPIC_OR_PARTITION", "NONE", "NONE"]
    assert nodes.forwarded == [(TOPIC, "t"), (TOPIC, "nope"), (BROKER, "2")]


def test_alter_configs_is_split_as_well() -> None:
    nodes = Nodes()
    asked = [(BROKER, "2", "background.threads", "9"), (BROKER, "3", "background.threads", "9")]
    assert nodes.ask(*asked, incremental=False) == ["NONE", "INVALID_REQUEST"]
    assert nodes.ask((LOGGER, "2", "root", "WARN"), incremental=False) == ["INVALID_REQUEST"]


def test_configs_of_what_is_neither_a_registered_broker_nor_a_controller_are_refused() -> None:
    image = DecidedCluster().image
    named = ("2", "70", "71", "9" * 5000)
    resources = [altering.AlterConfigsResource(resource_type=BROKER, resource_name=one, configs=[]) for one in named]
    request = altering.IncrementalAlterConfigsRequest(resources=resources, validate_only=False)
    deciding = Context(static(1), Random(0), 1, forwarded=True, controllers={70: ("host", 9)})
    reply = DECISIONS[type(request)](image, request, deciding).reply
    assert [name_of(one.error_code) for one in reply.responses] == [
        "NONE",
        "NONE",
        "BROKER_ID_NOT_REGISTERED",
        "INVALID_REQUEST",
    ]


def test_at_a_controller_the_last_entry_of_a_config_counts_and_null_deletes_it() -> None:
    nodes = Nodes()
    nodes.ask((TOPIC, "t", "retention.ms", "5"))
    nodes.ask((TOPIC, "t", "flush.ms", "6"))
    entries = [("retention.ms", "x"), ("retention.ms", None), ("segment.ms", "8")]
    changes = [altering.AlterableConfig(name=name, config_operation=0, value=value) for name, value in entries]
    new = [replacing.AlterableConfig(name=name, value=value) for name, value in entries]
    requests: list[Any] = [
        altering.IncrementalAlterConfigsRequest(
            resources=[altering.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=changes)],
            validate_only=False,
        ),
        replacing.AlterConfigsRequest(
            resources=[replacing.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=new)],
            validate_only=False,
        ),
    ]
    configs: list[dict[str, str]] = []
    for request in requests:
        context = Context(static(1), Random(0), 1, forwarded=True)
        split = at_once(forwarding_rules.splitting_at_controller(nodes.cluster.image, request, context))
        response = nodes.cluster.carry_out(DECISIONS[type(request)](nodes.cluster.image, split.request, context))
        assert [name_of(one.error_code) for one in response.responses] == ["NONE"]
        configs.append(dict(nodes.cluster.image.config(TOPIC, "t")))
    assert configs == [{"flush.ms": "6", "segment.ms": "8"}, {"segment.ms": "8"}]


def test_at_a_controller_the_client_is_authorized_before_the_id_of_a_broker_is_looked_at() -> None:
    resources = [altering.AlterConfigsResource(resource_type=BROKER, resource_name="x", configs=[])]
    request = altering.IncrementalAlterConfigsRequest(resources=resources, validate_only=True)
    refused = Access(authorizer=Nothing())
    for access, error in ((Access(), "INVALID_REQUEST"), (refused, "CLUSTER_AUTHORIZATION_FAILED")):
        context = Context(static(1), Random(0), 1, forwarded=True, access=access)
        split = at_once(forwarding_rules.splitting_at_controller(Nodes().cluster.image, request, context))
        assert [name_of(one.error_code) for one in split.merge(None).responses] == [error]


def test_values_are_validated_by_the_deciding_node() -> None:
    nodes = Nodes()
    assert nodes.ask((BROKER, "2", "background.threads", "0")) == ["INVALID_REQUEST"]
    assert nodes.ask((BROKER, "2", "node.id", "7")) == ["INVALID_REQUEST"]
    assert nodes.ask((BROKER, "2", "min.insync.replicas", "2")) == ["INVALID_CONFIG"]


def test_log_levels_of_another_node_are_not_changed() -> None:
    nodes = Nodes()
    request = altering.IncrementalAlterConfigsRequest(
        resources=[
            altering.AlterConfigsResource(
                resource_type=LOGGER,
                resource_name="1",
                configs=[altering.AlterableConfig(name="root", value="WARN")],
            )
        ]
    )
    deciding = Context(static(1), Random(0), 1, {"root": "INFO"}, forwarded=True)
    decision = DECISIONS[type(request)](nodes.cluster.image, request, deciding)
    assert not decision.log_levels
    assert name_of(decision.reply.responses[0].error_code) == "INVALID_REQUEST"


def test_other_requests_are_forwarded_unchanged() -> None:
    nodes = Nodes()
    request, response = CreateTopicsRequest(), object()
    split = split_of(nodes, request)
    assert split.request is request
    assert split.merge(response) is response
    empty = altering.IncrementalAlterConfigsRequest()
    assert split_of(nodes, empty).request is empty
