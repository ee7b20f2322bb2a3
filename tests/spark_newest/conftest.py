"""Tests for the newest PySpark, which has an environment of its own: run them by `.ci/spark-newest`.

In any other environment they are left out.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.genuine.spark_fixtures import kafka, topics
from tests.support.genuine.spark_jars import NEWEST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kafka", "spark", "topics"]


def _is_the_newest() -> bool:
    if importlib.util.find_spec("pyspark") is None:
        return False
    import pyspark

    return pyspark.__version__ == NEWEST.pyspark


IS_THE_NEWEST = _is_the_newest()
if not IS_THE_NEWEST:
    collect_ignore = ["test_real_time.py"]


def pytest_report_header() -> str | None:
    if IS_THE_NEWEST:
        return None
    return f"tests/spark_newest are left out: they need PySpark {NEWEST.pyspark}, run .ci/spark-newest"


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Real time needs a core for each partition and each state's partition, from the start to the end."""
    from tests.support.genuine.spark_session import start_session

    session = start_session(NEWEST, tmp_path_factory.mktemp("spark"), cores=4)
    yield session
    session.stop()
