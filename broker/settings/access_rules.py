"""Checks the rules between the settings of a node that are about security: logins, principals, what is not supported.

Source: `KafkaConfig.validateValues`, `JaasContext`, `StandardAuthorizer`.
"""

from collections.abc import Callable, Iterator

from minikafka.broker.settings.listeners import is_setting_of_listeners, listener_prefix
from minikafka.broker.settings.own_settings import METRICS
from minikafka.broker.settings.rules import Listeners, Problem, Values, is_alone, roles_of, voter_ids
from minikafka.broker.settings.sasl_settings import (
    OF_MECHANISMS_ONLY,
    SASL_PROTOCOLS,
    InvalidSaslSetting,
    is_sasl_setting_of_listeners,
    login_at_controllers,
    login_between_brokers,
    sasl_settings,
)
from minikafka.controller.security.standard_authorizer import CLASS_NAME, super_users
from minikafka.protocol.settings.registry import NODE_SETTINGS, SECURITY_NAMES, listener_base_name

__all__ = ["ACCESS_RULES"]


def _clients_can_authenticate(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Source: `JaasContext.loadServerContext`."""
    for name in OF_MECHANISMS_ONLY:
        if name in values.given:
            where = f"listener.name.<listener>.<mechanism>.{name}"
            yield Problem(name, None, f"belongs to a mechanism of a listener: {where}")
    for listener in listeners.all:
        if listener.protocol in SASL_PROTOCOLS:
            try:
                sasl_settings(values.given, listener.name)
            except InvalidSaslSetting as error:
                yield Problem(error.name, None, error.message)


def _brokers_can_log_in(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Source: `KafkaConfig.validateValues`, `JaasContext.loadServerContext`."""
    if is_alone(values.parsed, listeners):
        return  # There are no other brokers.
    for listener in listeners.for_clients:
        if listener.name == listeners.inter_broker and listener.protocol in SASL_PROTOCOLS:
            try:
                login_between_brokers(values.given, listener.name)
            except InvalidSaslSetting as error:
                yield Problem(error.name, None, error.message)


def _nodes_can_log_in_at_controllers(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Source: `NodeToControllerChannelManagerImpl`, `KafkaRaftManager.buildNetworkClient`."""
    listener, is_controller = listeners.of_controllers, "controller" in roles_of(values)
    if is_alone(values.parsed, listeners) or listener is None or listener.protocol not in SASL_PROTOCOLS:
        return
    try:
        login = login_at_controllers(values.given, listener.name, is_controller=is_controller)
    except InvalidSaslSetting as error:
        yield Problem(error.name, None, error.message)
        return
    if is_controller and _has_several_controllers(values) and login.mechanism.startswith("SCRAM-"):
        yield values.problem(
            "sasl.mechanism.controller.protocol",
            "several controllers cannot log in at each other by SCRAM: they read its users from the metadata, "
            "which needs an active controller first (allowed: PLAIN, OAUTHBEARER; brokers may use SCRAM)",
        )


def _controllers_are_super_users(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Controllers need CLUSTER_ACTION at each other before one of them is active, so before there are ACLs.

    The principal is known of a listener without TLS and logins, and of a login by a user name.
    """
    listener, name = listeners.of_controllers, "super.users"
    if not values.parsed["authorizer.class.name"] or "controller" not in roles_of(values) or listener is None:
        return
    user = "ANONYMOUS" if listener.protocol == "PLAINTEXT" else ""
    try:
        if listener.protocol in SASL_PROTOCOLS:
            user = login_at_controllers(values.given, listener.name, is_controller=True).username
        known = super_users(str(values.parsed[name] or ""))
    except (InvalidSaslSetting, ValueError):
        return  # Another rule reports it.
    if user and _has_several_controllers(values) and f"User:{user}" not in known:
        why = f"must contain User:{user}, as which controllers connect to each other at the listener {listener.name}"
        yield values.problem(name, f"{why}: they need CLUSTER_ACTION before there are ACLs")


def _has_several_controllers(values: Values) -> bool:
    return len(voter_ids(values)) > 1 or len(values.items("controller.quorum.bootstrap.servers")) > 1


def _one_controller_listener_is_secured(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """All controller listeners of a node are served as the first one is: a second one would be open."""
    others = [f"{one.name} is {one.protocol}" for one in listeners.for_controllers if one.protocol != "PLAINTEXT"]
    if others and len(listeners.for_controllers) > 1:
        why = f"one controller listener only, as {others[0]} (allowed: several if all of them are PLAINTEXT)"
        yield values.problem("controller.listener.names", f"must name {why}")


def _security_is_supported(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """A node that is told to be secure in a way that minikafka lacks must not start as an open one."""
    prefixes = tuple(map(listener_prefix, (METRICS, *(listener.name for listener in listeners.all))))
    for name, text in values.given.items():
        base = listener_base_name(name) or name
        setting = NODE_SETTINGS.get(base if base in SECURITY_NAMES else base.partition(".")[2])
        if setting is None or setting.name not in SECURITY_NAMES:
            continue
        if name.lower().startswith(prefixes) and not name.startswith(prefixes):
            yield Problem(name, None, "has no effect: the name of the listener must be in lower case")
        if setting.supported and (
            base == name or is_setting_of_listeners(base) or is_sasl_setting_of_listeners(name)
        ):
            continue
        if setting.parse(text) != setting.default:
            shown = "[hidden]" if setting.sensitive else text
            yield Problem(name, shown, "is not supported, and the node would be less secure without it: remove it")


def _authorizer_is_known(values: Values, listeners: Listeners) -> Iterator[Problem]:
    """Source: `StandardAuthorizer.getConfiguredSuperUsers`."""
    name = "authorizer.class.name"
    if values.parsed[name] not in ("", CLASS_NAME):
        yield values.problem(name, f"minikafka has no such authorizer (allowed: {CLASS_NAME})")
    try:
        super_users(str(values.parsed["super.users"] or ""))
    except ValueError as error:
        yield values.problem("super.users", str(error))


ACCESS_RULES: tuple[Callable[[Values, Listeners], Iterator[Problem]], ...] = (
    _security_is_supported,
    _clients_can_authenticate,
    _brokers_can_log_in,
    _nodes_can_log_in_at_controllers,
    _one_controller_listener_is_secured,
    _authorizer_is_known,
    _controllers_are_super_users,
)
"""The rules of this file, in the order in which problems are reported."""
