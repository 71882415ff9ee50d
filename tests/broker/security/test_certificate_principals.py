"""Names of certificates and their mapping are those of Java and Kafka: each expectation was printed by them."""

from __future__ import annotations

from contextlib import suppress
from random import Random

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type as Asn1Type
from cryptography.x509.oid import NameOID
from support.certificates import Authority

from minikafka.broker.security.certificate_principals import (
    InvalidRule,
    NoRuleApplies,
    distinguished_name,
    principal_mapper,
)

CN, O, OU, UID = (  # noqa: E741
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.USER_ID,
)
KEY = ec.generate_private_key(ec.SECP256R1())


def of_type(oid: x509.ObjectIdentifier, value: str, kind: Asn1Type) -> x509.NameAttribute:
    return x509.NameAttribute(oid, value, _type=kind)


def certificate(name: x509.Name) -> bytes:
    authority = Authority().certificate
    builder = x509.CertificateBuilder(
        authority.subject,
        name,
        KEY.public_key(),
        1,
        authority.not_valid_before_utc,
        authority.not_valid_after_utc,
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def name_of(*parts: tuple[x509.ObjectIdentifier, str] | x509.NameAttribute) -> x509.Name:
    return x509.Name([part if isinstance(part, x509.NameAttribute) else x509.NameAttribute(*part) for part in parts])


NAMES = [
    (name_of((O, "acme"), (OU, "hr"), (CN, "carol")), "CN=carol,OU=hr,O=acme"),
    (
        name_of((CN, 'a,b=c#d+e<f>;g"h\\'), (O, " lead and trail  ")),
        r"O=\ lead and trail\ \ ,CN=a\,b\=c\#d\+e\<f\>\;g\"h\\",
    ),
    (
        name_of(
            (NameOID.EMAIL_ADDRESS, "a@b.c"),
            (NameOID.SERIAL_NUMBER, "12"),
            (NameOID.DOMAIN_COMPONENT, "x"),
            (UID, "u"),
            (NameOID.STREET_ADDRESS, "s"),
            (NameOID.STATE_OR_PROVINCE_NAME, "st"),
            (NameOID.LOCALITY_NAME, "l"),
            (NameOID.COUNTRY_NAME, "DE"),
            (CN, "#x"),
        ),
        r"CN=\#x,C=DE,L=l,ST=st,STREET=s,UID=u,DC=x,2.5.4.5=#13023132,1.2.840.113549.1.9.1=#16056140622e63",
    ),
    (name_of((CN, "ä ö\nx\t\x01é€😀"), (O, "a  b")), "O=a  b,CN=ä ö\nx\t\x01é€😀"),
    (
        x509.Name([
            x509.RelativeDistinguishedName([
                x509.NameAttribute(CN, "cn"),
                x509.NameAttribute(OU, "o1"),
                x509.NameAttribute(UID, "uid"),
            ]),
            x509.RelativeDistinguishedName([x509.NameAttribute(O, "z")]),
        ]),
        "O=z,CN=cn+OU=o1+UID=uid",
    ),
    (name_of((CN, "\0a\0")), r"CN=\00a\00"),
    (name_of((CN, "   ")), r"CN=\ \ \ "),
    (
        name_of(
            of_type(CN, "teletex", Asn1Type.T61String),
            of_type(O, "bmp", Asn1Type.BMPString),
            of_type(OU, "uni", Asn1Type.UniversalString),
        ),
        r"OU=#1c0c000000750000006e00000069,O=\00b\00m\00p,CN=teletex",
    ),
    (x509.Name([]), ""),
    (name_of((x509.ObjectIdentifier("1.2.3.4"), "v")), "1.2.3.4=#0c0176"),
    (name_of((CN, "pr*@_&"), (O, "o" * 64), (OU, "é" * 30)), f"OU={'é' * 30},O={'o' * 64},CN=pr*@_&"),
]


@pytest.mark.parametrize(("name", "expected"), NAMES, ids=[expected for _, expected in NAMES])
def test_the_name_is_written_as_java_does(name: x509.Name, expected: str) -> None:
    assert distinguished_name(certificate(name)) == expected


def test_a_malformed_certificate_is_an_error() -> None:
    with pytest.raises(ValueError, match="parsing"):
        distinguished_name(b"rubbish")


OF_KAFKA = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U, RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        (OF_KAFKA, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (OF_KAFKA, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (OF_KAFKA, "cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        (OF_KAFKA, "cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        (OF_KAFKA, "OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
        ("RULE:^CN=(.*?),.*$/$1/L,DEFAULT", "CN=Carol,OU=x", "carol"),
        (r"RULE:^CN=(\w+)\/(\w+),.*$/$2\$$1\//U", "CN=ab/cd,O=x", "CD$AB/"),
        ("RULE:^CN=(.*?)$/$1$2/", "CN=z", "z$2"),
        ("RULE:^CN=(.)(.*)$/$11/", "CN=zab", "z1"),
        ("RULE:CN=admin/admin/,DEFAULT", "CN=admin", "admin"),
        ("RULE:CN=admin/admin/,DEFAULT", "CN=admin,O=evil", "CN=admin,O=evil"),
        ("RULE:CN=admin/admin/,DEFAULT", "O=evil+CN=admin", "O=evil+CN=admin"),
        ("DEFAULT , RULE:^CN=(.*)$/$1/", "CN=q", "CN=q"),
    ],
)
def test_rules_map_as_kafkas(rules: str, name: str, expected: str) -> None:
    assert principal_mapper(rules)(name) == expected


@pytest.mark.parametrize("rules", ["", "RULE:^O=(.*)$/$1/"])
def test_a_name_to_which_no_rule_applies_has_no_principal(rules: str) -> None:
    with pytest.raises(NoRuleApplies, match="applies to CN=z"):
        principal_mapper(rules)("CN=z")


@pytest.mark.parametrize(
    "rules", ["RULE:a", "rubbish", "RULE:^CN=(.*)$/$1/X", "RULE:^CN=(.*)$/$1/LU,DEFAULT", "RULE:(/x/", "DEFAULT,x"]
)
def test_malformed_rules_are_refused(rules: str) -> None:
    with pytest.raises(InvalidRule, match="Invalid rule"):
        principal_mapper(rules)


@pytest.mark.parametrize("seed", range(3))
def test_of_damaged_certificates_the_name_is_a_value_error(seed: int) -> None:
    """A controller listener refuses such a client: OpenSSL minds neither an odd version nor the type of a name."""
    random, whole = Random(seed), Authority().issue("CN=carol,OU=hr,O=acme", hosts=()).der
    near = whole.rindex(b"\x55\x04\x03")
    for _ in range(3000):
        changed = bytearray(whole)
        place = random.randrange(len(whole)) if random.random() < 0.4 else near + random.randrange(-30, 12)
        changed[place] = random.choice((0, 2, 3, 4, 12, 19, 20, 30, 0x80, 0xFF, random.randrange(256)))
        with suppress(ValueError):
            distinguished_name(bytes(changed))


def test_a_name_of_bits_and_an_unknown_version_are_refused() -> None:
    whole = Authority().issue("CN=carol", hosts=()).der
    name = b"\x06\x03\x55\x04\x03\x0c\x05carol"
    bits = whole.replace(name, name.replace(b"\x0c", b"\x03"))
    for changed in (bits, whole.replace(b"\x02\x01\x02", b"\x02\x01\x09", 1)):
        assert changed != whole
        with pytest.raises(ValueError, match="the certificate is malformed"):
            distinguished_name(changed)
