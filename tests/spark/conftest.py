"""One Spark session for all the tests of this folder, a broker for each module.

Without PySpark the modules here could not even be imported: they are left out
then, and ``test_versions.py`` says so (and fails on CI).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.genuine.spark_fixtures import kafka, topics
from tests.support.genuine.spark_jars import PUBLISHED

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kafka", "spark", "topics"]

if importlib.util.find_spec("pyspark") is None:
    collect_ignore = [
        path.name for path in Path(__file__).parent.glob("test_*.py") if path.name != "test_versions.py"
    ]


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    PUBLISHED.check_pyspark()
    from tests.support.genuine.spark_session import start_session

    session = start_session(PUBLISHED, tmp_path_factory.mktemp("spark"), cores=3)
    yield session
    session.stop()
