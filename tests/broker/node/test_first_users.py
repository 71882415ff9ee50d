"""`--add-scram`: the users that Kafka's tool derived from the same options, and what is refused."""

from __future__ import annotations

from random import Random

import pytest

from minikafka.broker.node.first_users import InvalidUser, first_users
from minikafka.controller.decisions.bootstrap_records import bootstrap
from minikafka.controller.metadata.formatted_levels import Formatted, read_formatted, write_formatted
from minikafka.controller.settings.static_settings import StaticSettings
from minikafka.protocol.sasl.scram import ScramMechanism, derive_keys
from minikafka.storage.disks.memory_disk import MemoryDisk

KAFKAS = bytes.fromhex(
    "0000000000000000000000470000000002f2ac2c64002000000000000001a2269380a2000001a2269380a2ffffffffffffffffffffffffffff00"
    "0000012a0000000800000003160000000000000000000000000000000000000001000001ed0000000002c38f2d1c000000000007000001a22693"
    "80eb000001a2269380ebffffffffffffffffffffffffffff000000083a000000012e010c00116d657461646174612e76657273696f6e001e0000"
    "5a000002014e010c0021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e00010000340000040128010c000e6772"
    "6f75702e76657273696f6e00010000340000060128010c000e73686172652e76657273696f6e0001000038000008012c010c001073747265616d"
    "732e76657273696f6e000100004000000a0134010c00147472616e73616374696f6e2e76657273696f6e00020000ba0100000c01ac01010b0006"
    "616c696365010573616c742195d8210d78de42e8f90e47d60caf723bebec8c150cbe6e2ceee62ef62b335593216a5a5a2f99639f2d324855d453"
    "d90ff24cde46b0e9fe134b5e7b829c6af581e2000020000000b60200000e01a802010b0004626f62020573616c744157a00fac58568518159ac0"
    "17e7d91dd6d07a0b5ba20deed76ecb2592b631d590d5fbb977a3e9ab84376042e2a75a0322dc27114315fae7f9bca0ccd7775da40c415acea1b4"
    "9b81e582ef7bd674400b1b7e8f15f9075245cb6a527cb1e6c5ed7e3afc317e3f16381a8912191a502e3ee9326035d5dd99b218e984e6ad68c203"
    "a3c900001000000000000000000000090000003f0000000002dd9a6ad9002000000000000001a2269380ed000001a2269380edffffffffffffff"
    "ffffffffffffff000000011a00000008000000040600000000"
)
"""The bootstrap.checkpoint that `kafka-storage format` of Kafka 4.3.1 wrote with the users below."""
USERS = (
    'SCRAM-SHA-256=[name=alice,iterations=8192,salt="c2FsdA==",password=alice-secret]',
    'SCRAM-SHA-512=[name=bob,salt="c2FsdA==",password="b"]',
)


def disk_with(data: bytes) -> MemoryDisk:
    disk = MemoryDisk(Random(0))
    disk.make_directory("/data")
    disk.write_atomically("/data/bootstrap.checkpoint", data)
    return disk


def test_the_users_are_those_that_kafka_derives() -> None:
    users = first_users(USERS, Random(0))
    assert read_formatted(disk_with(KAFKAS), "/data").users == users
    assert [(user.user, user.iterations) for user in users] == [("alice", 8192), ("bob", 4096)]


def test_kafkas_tool_could_read_our_file() -> None:
    formatted = read_formatted(disk_with(KAFKAS), "/data")
    disk = disk_with(b"")
    write_formatted(disk, "/data", formatted, now_ms=1_795_000_000_000)
    found = disk.read_bytes("/data/bootstrap.checkpoint")
    assert read_formatted(disk, "/data") == formatted
    records = slice(KAFKAS.index(b"metadata.version"), KAFKAS.rindex(formatted.users[-1].server_key) + 69)
    assert len(found) == len(KAFKAS)
    assert found[records] == KAFKAS[records]


def test_a_new_cluster_begins_with_the_users() -> None:
    users = first_users(USERS, Random(0))
    records = bootstrap("id", StaticSettings(1, formatted=Formatted({"metadata.version": 30}, users)))
    assert tuple(records[-2:]) == users


def test_a_salted_password_and_a_random_salt() -> None:
    mechanism = ScramMechanism.SHA_512
    [by_salted] = first_users(['SCRAM-SHA-512=[name=a,salt="c2FsdA==",saltedpassword="AQID"]'], Random(0))
    assert (by_salted.mechanism, by_salted.salt, len(by_salted.stored_key)) == (mechanism.value, b"salt", 64)
    one, two = (first_users(["SCRAM-SHA-512=[name=a,password=x=y]"], Random(seed))[0] for seed in (1, 2))
    assert one.salt != two.salt
    assert one.stored_key == derive_keys(mechanism, "x=y", one.salt, 4096).stored_key
    [quoted] = first_users([r'SCRAM-SHA-512=[name="a,b",password="p\"q",salt="c2FsdA=="]'], Random(0))
    assert quoted.user == "a,b"
    assert quoted.stored_key == derive_keys(mechanism, 'p"q', b"salt", 4096).stored_key


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", "expected MECHANISM="),
        ("SCRAM-SHA-256=name=a,password=hush", "expected MECHANISM="),
        ("SCRAM-SHA-1=[name=a,password=hush]", "SCRAM-SHA-1 is not a mechanism"),
        ("SCRAM-SHA-256=[password=hush]", "needs a name"),
        ("SCRAM-SHA-256=[name=,password=hush]", "needs a name"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword'"),
        ('SCRAM-SHA-256=[name=a,password=hush,saltedpassword="AQID"]', "You must supply one of"),
        ("SCRAM-SHA-256=[name=a,password=]", "the password is empty"),
        ('SCRAM-SHA-256=[name=a,saltedpassword="AQID"]', "You must supply 'salt'"),
        ('SCRAM-SHA-256=[name=a,salt="*",password=hush]', "salt is not base64"),
        ("SCRAM-SHA-256=[name=a,iterations=4095,password=hush]", "must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,iterations=16385,password=hush]", "must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,iterations=x,password=hush]", "must be 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,name=b,password=hush]", "at most once"),
        ("SCRAM-SHA-256=[name=a,colour=b,password=hush]", "at most once"),
    ],
)
def test_what_is_refused_without_the_password_in_the_message(text: str, why: str) -> None:
    with pytest.raises(InvalidUser) as error:
        first_users([text], Random(0))
    assert why in str(error.value)
    assert "hush" not in str(error.value)


def test_a_user_is_named_once_for_a_mechanism() -> None:
    with pytest.raises(InvalidUser, match="named twice"):
        first_users(["SCRAM-SHA-256=[name=a,password=x]"] * 2, Random(0))
