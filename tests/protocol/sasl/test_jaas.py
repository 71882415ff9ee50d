"""The grammar of `sasl.jaas.config`, as Kafka's `JaasConfig` reads it."""

from __future__ import annotations

import pytest

from minikafka.protocol.sasl.jaas import JaasError, LoginModule, read_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required username="alice" password="a b;c";', {"username": "alice", "password": "a b;c"}),
        (f"{PLAIN} required\n  username='alice'\n  password='it\"s';\n", {"username": "alice", "password": 'it"s'}),
        (f"{PLAIN} REQUISITE username=alice.b-c_d$;", {"username": "alice.b-c_d$"}),
        (f'{PLAIN} optional a = "1" b="" ; ', {"a": "1", "b": ""}),
        (f'{PLAIN} sufficient // a comment\n /* another\n one */ a="// no comment";', {"a": "// no comment"}),
        (f'{PLAIN} required / a comment\n a="b";', {"a": "b"}),
        (rf'{PLAIN} required a="\"\\\n\101\7\q";', {"a": '"\\\nA\x07q'}),
        (rf'{PLAIN} required a="\1019\48\377";', {"a": "A9\x048ÿ"}),
        (f'{PLAIN} required "user_a@b"="c" user_ö=ü;', {"user_a@b": "c", "user_ö": "ü"}),
        (f'{PLAIN} required a="first" a="last";', {"a": "last"}),
        (f'{PLAIN} required a="ends with the line\n;', {"a": "ends with the line"}),
    ],
)
def test_valid_texts(text: str, options: dict[str, str]) -> None:
    login = read_jaas(text)
    assert (login.module, login.options) == (LoginModule.PLAIN, options)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "contains 0 login modules"),
        ("  // nothing", "contains 0 login modules"),
        (f"{PLAIN} required; {SCRAM} required;", "contains 2 login modules"),
        (PLAIN, "no control flag"),
        (f"{PLAIN};", "no control flag"),
        (f'{PLAIN} username="a";', "unknown control flag"),
        (f'{PLAIN} required username="secret"', "not terminated by a semicolon"),
        (f"{PLAIN} required username", "no value for the option 'username'"),
        (f"{PLAIN} required username=;", "no value for the option 'username'"),
        (f"{PLAIN} required password=123;", "no value for the option 'password'"),
        (f"{PLAIN} required password=-1;", "no value for the option 'password'"),
        (f"{PLAIN} required password:secret;", "no value for the option 'password'"),
        (f"{PLAIN} required =secret;", "not a name"),
        (f'{PLAIN} required username="alice" password="ab"secret";', "no value for its option 3"),
        (f'{PLAIN} required user_alice=ab secret;', "no value for its option 2"),
        (f"{PLAIN} required password=abc;secret;", "an unknown login module; allowed: "),
        (f"{PLAIN} required password='ab'secret';", "no value for its option 2"),
        ("secret", "an unknown login module; allowed: "),
        (f'{PLAIN} required password=a;"se\\143ret" required;', "an unknown login module; allowed: "),
        (f'{PLAIN} required a=b, c="secret";', "not a name"),
        ("com.sun.security.auth.module.JndiLoginModule required user.provider.url=\"ldap://x\";", "allowed: "),
        ("com.sun.security.auth.module.LdapLoginModule required;", "allowed: "),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "allowed: "),
        (f"{PLAIN}\n.Evil required;", "no control flag"),
        ("../PlainLoginModule required;", "allowed: "),
        ("PlainLoginModule required;", "allowed: "),
        ("; required;", "allowed: "),
    ],
)
def test_invalid_texts_are_refused_without_a_value_in_the_message(text: str, why: str) -> None:
    with pytest.raises(JaasError) as error:
        read_jaas(text)
    assert why in str(error.value)
    assert "secret" not in str(error.value)


def test_a_text_that_is_too_long_is_refused() -> None:
    with pytest.raises(JaasError, match="characters; allowed: at most"):
        read_jaas(f'{PLAIN} required a="{"x" * (1 << 20)}";')


def test_what_a_login_says_and_hides() -> None:
    login = read_jaas(f'{SCRAM} required username="alice" password="hush" tokenauth="true" user_bob="hush";')
    assert (login.module, login.username, login.password, login.by_token) == (
        LoginModule.SCRAM, "alice", "hush", True)
    assert login.passwords == {"bob": "hush"}
    assert "hush" not in repr(login)
    assert not read_jaas(f"{SCRAM} required;").by_token


@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", LoginModule.PLAIN), ("SCRAM-SHA-512", LoginModule.SCRAM), ("OAUTHBEARER", LoginModule.OAUTHBEARER),
     ("GSSAPI", None)],
)
def test_the_module_of_a_mechanism(mechanism: str, module: LoginModule | None) -> None:
    assert LoginModule.of_mechanism(mechanism) is module
