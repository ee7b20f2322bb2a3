"""The versions of Spark stand in one place, and what else names them agrees."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.support.genuine.spark_jars import NEWEST, PUBLISHED, SparkLine

ROOT = Path(__file__).resolve().parents[2]


def test_the_project_installs_the_pyspark_that_fits_the_connector() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["spark"] == [f"pyspark=={PUBLISHED.pyspark}"]
    assert f"pyspark=={PUBLISHED.pyspark}" in (ROOT / "requirements.lock").read_text().splitlines()


def test_the_published_set_is_of_one_release() -> None:
    versions = PUBLISHED.versions
    assert versions["connector"] == versions["token-provider"] == versions["pyspark"]


@pytest.mark.parametrize("line", [PUBLISHED, NEWEST], ids=lambda line: line.pom.parent.name)
def test_each_set_is_the_four_jars_and_pyspark(line: SparkLine) -> None:
    assert sorted(line.versions) == [
        "commons-pool2", "connector", "kafka-clients", "pyspark", "token-provider",
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.java
def test_the_jars_are_here() -> None:
    versions = PUBLISHED.versions
    assert [jar.name for jar in PUBLISHED.jars()] == [
        f"commons-pool2-{versions['commons-pool2']}.jar",
        f"kafka-clients-{versions['kafka-clients']}.jar",
        f"spark-sql-kafka-0-10_2.13-{versions['connector']}.jar",
        f"spark-token-provider-kafka-0-10_2.13-{versions['token-provider']}.jar",
    ]
