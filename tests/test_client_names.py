"""`minikafka` has the names of `minikafka.client`, which imports what is used of it, and no more."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import minikafka
from minikafka import client

HEAVY = ("minikafka.client.admin.admin", "minikafka.client.consumer.consumer", "minikafka.client.producer.producer")


def test_all_public_names_are_there() -> None:
    for name in client.__all__:
        assert getattr(client, name) is not None
    assert set(client.__all__) <= set(dir(client))
    assert {name for names in client._PLACES.values() for name in names} == set(client.__all__)


def test_modules_are_attributes_as_if_they_were_imported() -> None:
    assert client.blocking.Producer.__module__ == "minikafka.client.blocking.producer"
    for name in ("nothing", "_nothing", "__wrapped__"):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(client, name)


@pytest.mark.slow
def test_a_node_starts_without_the_clients() -> None:
    program = f"import sys, minikafka.broker.node.main; print(*(one for one in {HEAVY} if one in sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == ""


def test_type_checkers_see_no_names_that_are_made_at_run_time() -> None:
    """A module's `__getattr__` that they see would have them accept any name."""
    for package in (minikafka, client):
        assert package.__file__ is not None
        module = ast.parse(Path(package.__file__).read_text())
        assert "__getattr__" in vars(package)
        assert not [one for one in module.body if isinstance(one, ast.FunctionDef) and one.name == "__getattr__"]
        blocks = [one for one in module.body if isinstance(one, ast.If)]
        hidden = [ast.unparse(one.test) for one in blocks if "def __getattr__" in ast.unparse(one)]
        assert hidden == ["not TYPE_CHECKING"]


def test_public_names_are_those_of_the_client() -> None:
    assert set(minikafka.__all__) == {*client.__all__, "__version__"}
    assert all(getattr(minikafka, name) is getattr(client, name) for name in client.__all__)
    assert set(minikafka.__all__) <= set(dir(minikafka))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'minikafka' has no attribute 'Producr'"):
        minikafka.Producr  # noqa: B018
