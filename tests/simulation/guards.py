"""Who is let in, while faults happen: SASL and ACLs in simulated clusters, and a check of each answer to a guard.

In a *secured* seed all clients log in. A guard asks brokers, one by one, whether a user may see a topic:

- `never` may not, and `always` may: in each answer of each broker, from the first to the last.
- Grants to other users are made and taken back, and passwords of SCRAM are changed, by requests that are sent once. A
  broker's answer must be that of a version which it may have: none before one that it has shown, none after the last
  (`Versions`). Where the outcome of a change is unknown, another user takes the place of that one.
- At the end all brokers have the last version of each.

The programs of the workload log in as `load`, which has its ACLs from the beginning: no refusal is among what they
have met. TLS is outside of simulations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import trio
from chaos.workload.process import ClientProcess
from support.logins import Login, Logins, jaas

from minikafka.client.connections.connection import open_connection
from minikafka.client.security.connection_security import ConnectionSecurity
from minikafka.client.security.sasl_login import SaslLogin
from minikafka.protocol.error_codes import ErrorCode
from minikafka.protocol.errors import KafkaError, SaslAuthenticationFailedError
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from minikafka.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from minikafka.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from minikafka.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.protocol.sasl.scram import ScramMechanism, salted_password
from simulation.versions import Versions

TOPIC = "steady"
USERS_MAX = 20
PATIENCE_MS = 3000
SETTLE_MAX_S, SETTLE_EVERY_S = 60.0, 0.5
ADMIN, LOAD, ALWAYS, NEVER = "admin", "load", "always", "never"
GRANTEES = [f"granted-{number}" for number in range(USERS_MAX)]
MECHANISM = ScramMechanism.SHA_256
TOPIC_KIND, GROUP_KIND, TRANSACTIONAL_KIND, LITERAL, ALLOW = 2, 3, 5, 3, 3
READ, WRITE, DESCRIBE = 3, 4, 8
SALT, ITERATIONS = b"a salt of sixteen", 4096
_MODULES = "org.apache.kafka.common.security"
_PLAIN, _SCRAM = f"{_MODULES}.plain.PlainLoginModule required", f"{_MODULES}.scram.ScramLoginModule required"


def secure_settings() -> dict[str, str]:
    """The settings of a node: clients and brokers log in, and controllers, which do not, are super users."""
    plain = [f'user_{user}="{password_of(user)}"' for user in (ADMIN, ALWAYS, NEVER, "broker", *GRANTEES)]
    own = f'{_PLAIN} username="broker" password="{password_of("broker")}" {" ".join(plain)};'
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM.mechanism}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.plaintext.plain.sasl.jaas.config": own,
        f"listener.name.plaintext.{MECHANISM.mechanism.lower()}.sasl.jaas.config": f"{_SCRAM};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMIN};User:broker;User:ANONYMOUS",
    }


def password_of(user: str, number: int = 0) -> str:
    return f"{user}-secret-{number}"


def logins(bootstrap: str) -> Logins:
    """The users of the workload in a secured seed."""
    users = [(LOAD, MECHANISM.mechanism, "scram.Scram"), (ADMIN, "PLAIN", "plain.Plain")]
    return Logins(*(
        Login.of(bootstrap, {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas(module, user, password_of(user)),
        })
        for user, mechanism, module in users
    ))  # fmt: skip


class Guards:
    """The programs of one run, and what they know.

    Args:
        brokers: `host:port` of each broker.

    Attributes:
        grants: whether a user may see the topic, by user.
        passwords: the password of each user of SCRAM.
    """

    def __init__(self, brokers: Sequence[str]) -> None:
        self.brokers = list(brokers)
        self.grants: dict[str, Versions[bool]] = {user: Versions(first=False) for user in (ALWAYS, NEVER, LOAD)}
        self.passwords: dict[str, Versions[str]] = {LOAD: Versions("")}
        self._grantees = iter(GRANTEES)
        self._scram_users = (f"scram-{number}" for number in range(USERS_MAX))

    # -- programs ------------------------------------------------------------------------------------------------

    async def begin(self, process: ClientProcess) -> None:
        """Make the users, until all brokers know them. Raises AssertionError."""
        while not (self.passwords[LOAD].is_known and len(self.passwords[LOAD].values) > 1):
            await self._change_password(process, LOAD, password_of(LOAD))
        for user in (LOAD, ALWAYS):
            while not (self.grants[user].is_known and self.grants[user].values[-1]):
                await self._grant(process, user, allowed=True)
        await self.settle(process)

    async def settle(self, process: ClientProcess) -> None:
        """Ask until each broker has the last version of everything. Raises AssertionError."""
        with trio.move_on_after(SETTLE_MAX_S):
            while waiting := self._waiting():
                for broker, user in waiting:
                    await self._ask(process, broker, user)
                await trio.sleep(SETTLE_EVERY_S)
        assert not self._waiting(), f"not in force after {SETTLE_MAX_S:g} s: {self._waiting()}"

    def _waiting(self) -> list[tuple[str, str]]:
        known = [*self.grants.items(), *self.passwords.items()]
        return [(broker, user) for user, one in known for broker in self.brokers if not one.is_in_force(broker)]

    async def watch(self, process: ClientProcess) -> None:
        """Ask any broker about any user, again and again. Raises AssertionError."""
        while True:
            user = process.random.choice([*self.grants, *self.passwords])
            await self._ask(process, process.random.choice(self.brokers), user)
            await process.rest()

    async def change(self, process: ClientProcess) -> None:
        """Change grants and passwords of new users, and of others once the outcome of a change is unknown."""
        for grantee, scram_user in zip(self._grantees, self._scram_users, strict=False):
            self.grants[grantee], self.passwords[scram_user] = Versions(first=False), Versions("")
            while self.grants[grantee].is_known and self.passwords[scram_user].is_known:
                if process.chance(0.6):
                    await self._grant(process, grantee, allowed=not self.grants[grantee].values[-1])
                else:
                    number = len(self.passwords[scram_user].values)
                    await self._change_password(process, scram_user, password_of(scram_user, number))
                await process.rest(3)
        await trio.sleep_forever()

    # -- changes ---------------------------------------------------------------------------------------------------

    async def _grant(self, process: ClientProcess, user: str, *, allowed: bool) -> None:
        """Allow a user to see the topic, or take that back: one request, whose outcome may remain unknown."""
        versions, principal = self.grants[user], f"User:{user}"
        versions.change(allowed)
        request: CreateAclsRequest | DeleteAclsRequest
        if allowed:
            request = CreateAclsRequest(creations=[_creation(principal, *one) for one in _granted(user)])
        else:
            request = DeleteAclsRequest(filters=[_filter(principal, TOPIC_KIND, TOPIC, DESCRIBE)])
        response = await self._of_admin(process, request, "grant" if allowed else "take back")
        if response is not None:
            results = response.results if allowed else response.filter_results
            versions.is_known = not any(one.error_code for one in results)

    async def _change_password(self, process: ClientProcess, user: str, password: str) -> None:
        versions = self.passwords[user]
        versions.change(password)
        salted = salted_password(MECHANISM, password, SALT, ITERATIONS)
        upsertion = ScramCredentialUpsertion(
            name=user, mechanism=MECHANISM.value, iterations=ITERATIONS, salt=SALT, salted_password=salted
        )
        request = AlterUserScramCredentialsRequest(upsertions=[upsertion])
        response = await self._of_admin(process, request, "change a password")
        if response is not None:
            versions.is_known = not any(one.error_code for one in response.results)

    async def _of_admin(self, process: ClientProcess, request: Any, what: str) -> Any:
        """The response to a request that is sent once; None if there is none."""
        login = SaslLogin("PLAIN", ADMIN, password_of(ADMIN))
        try:
            response = await self._answer(process, process.random.choice(self.brokers), login, request)
        except KafkaError as error:
            process.count("changer", what, error)
            return None
        process.count("changer", what)
        return response

    # -- questions -------------------------------------------------------------------------------------------------

    async def _ask(self, process: ClientProcess, broker: str, user: str) -> None:
        """Log in, and ask for the topic. Raises AssertionError for an answer that the broker must not give."""
        login = self._login(process, user)
        passwords = self.passwords.get(user)
        logged_in = passwords.observer(broker) if passwords else None
        granted = self.grants[user].observer(broker) if user in self.grants else None
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False)
        try:
            response = await self._answer(process, broker, login, request)
        except SaslAuthenticationFailedError:
            assert logged_in is not None, f"{broker} does not know the password of {user}"
            logged_in(lambda password: password != login.password, f"refuses the password of {user}")
            process.count("guard", "refuse a password")
            return
        except KafkaError as error:
            process.count("guard", "ask", error)
            return
        if logged_in is not None:
            logged_in(lambda password: password == login.password, f"takes the password of {user}")
            process.count("guard", "take a password")
        if granted is not None:
            allowed = response.topics[0].error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED
            granted(lambda value: value == allowed, f"{'allows' if allowed else 'denies'} {TOPIC} to {user}")
            process.count("guard", "allow" if allowed else "deny")

    def _login(self, process: ClientProcess, user: str) -> SaslLogin:
        """With the last password of a user of SCRAM, or the one before."""
        if user not in self.passwords:
            return SaslLogin("PLAIN", user, password_of(user))
        known = [password for password in self.passwords[user].values[-2:] if password] or [password_of(user)]
        return SaslLogin(MECHANISM.mechanism, user, process.random.choice(known))

    @staticmethod
    async def _answer(process: ClientProcess, broker: str, login: SaslLogin, request: Any) -> Any:
        """The response of one broker, over a new connection. Raises KafkaError."""
        host, _, port = broker.rpartition(":")
        answer: Any
        async with trio.open_nursery() as tasks:
            try:
                connection = await open_connection(
                    host,
                    int(port),
                    client_id=process.client_name(),
                    seams=process.seams,
                    task_group=tasks,
                    timeout_ms=PATIENCE_MS,
                    security=ConnectionSecurity(login=login),
                )
                try:
                    answer = await connection.request(request, timeout_ms=PATIENCE_MS)
                finally:
                    connection.close()
            except KafkaError as error:
                answer = error
            tasks.cancel_scope.cancel()
        if isinstance(answer, KafkaError):
            raise answer
        return answer


def _granted(user: str) -> list[tuple[int, str, int]]:
    """Kind, name and operation of what a user is granted; what is asked for comes last."""
    if user != LOAD:
        return [(TOPIC_KIND, TOPIC, DESCRIBE)]
    others = [(GROUP_KIND, "*", READ), (TRANSACTIONAL_KIND, "*", WRITE), (TOPIC_KIND, "*", WRITE)]
    return [*others, (TOPIC_KIND, "*", READ)]


def _creation(principal: str, kind: int, name: str, operation: int) -> AclCreation:
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=LITERAL,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=ALLOW,
    )


def _filter(principal: str, kind: int, name: str, operation: int) -> DeleteAclsFilter:
    return DeleteAclsFilter(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=LITERAL,
        principal_filter=principal,
        host_filter="*",
        operation=operation,
        permission_type=ALLOW,
    )
