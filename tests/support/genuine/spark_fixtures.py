"""Fixtures for the conftests of Spark's tests to import: topics and Spark's Kafka source and sink, at the
module's broker. The session, `spark`, is the conftest's own: each release of Spark has other needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import AnyBroker
from tests.support.clients.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.genuine.spark_session import Kafka

__all__ = ["kafka", "topics"]


@pytest.fixture(scope="module")
def topics(broker: AnyBroker) -> Topics:
    return Topics(broker.bootstrap_servers)


@pytest.fixture
def kafka(spark: SparkSession, broker: AnyBroker, tmp_path: Path) -> Iterator[Kafka]:
    """Source and sink on the module's broker; queries that a failed test left behind are stopped."""
    from tests.support.genuine.spark_session import Kafka  # imports PySpark, which may be missing

    yield Kafka(spark, broker.bootstrap_servers, tmp_path)
    for query in spark.streams.active:
        query.stop()
