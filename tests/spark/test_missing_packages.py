"""A package that the connector needs and that is missing is named where the source is made, not where a worker ends."""

from __future__ import annotations

import pytest

from minikafka.spark_connector import data_source


def test_a_source_without_pyarrow_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_source, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pyarrow, which is missing: pip install 'minikafka\[spark\]'"):
        data_source.MinikafkaDataSource({"subscribe": "t"})
