"""PySpark and its Kafka connector: which versions fit together, and the jars out of Maven.

Spark's connector must be of the release of PySpark, and Maven Central does not have it
for each release. Two files name sets that work: ``tests/support/spark/pom.xml`` the
newest set that is complete, ``tests/support/spark_newest/pom.xml`` what goes with the
newest PySpark. Fetching takes about eight seconds and 10 MB, once; the jars then lie in
``.cache/spark-<version of PySpark>``.
"""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple
from xml.etree import ElementTree as ET

from tests.support.genuine.kafka_jars import maven_folder, missing

SUPPORT: Final = Path(__file__).parents[1]
MAVEN: Final = "{http://maven.apache.org/POM/4.0.0}"


class SparkLine(NamedTuple):
    """One set of versions that fit together, as its pom names them."""

    pom: Path

    @property
    def versions(self) -> Mapping[str, str]:
        """By part: ``pyspark``, ``connector``, ``token-provider``, ``kafka-clients``, ``commons-pool2``."""
        properties = ET.parse(self.pom).getroot().iterfind(f"{MAVEN}properties/*")
        return {each.tag.removeprefix(MAVEN).removesuffix(".version"): each.text or "" for each in properties}

    @property
    def pyspark(self) -> str:
        return self.versions["pyspark"]

    def jars(self) -> list[Path]:
        """The four jars; skips or fails the test if they can't be had."""
        self.check_pyspark()
        if shutil.which("java") is None:
            missing("Java is not on the PATH: install a JDK 17 to run the tests with Spark")
        return sorted(maven_folder(self.pom, f"spark-{self.pyspark}").glob("*.jar"))

    def check_pyspark(self) -> None:
        if importlib.util.find_spec("pyspark") is None:
            missing(f"PySpark is not installed: pip install pyspark=={self.pyspark}, or `.ci/setup spark`")
        import pyspark  # only here: most test runs do without

        if pyspark.__version__ != self.pyspark:
            missing(f"PySpark {self.pyspark} is needed for these tests, this is {pyspark.__version__}")


PUBLISHED: Final = SparkLine(SUPPORT / "spark" / "pom.xml")
NEWEST: Final = SparkLine(SUPPORT / "spark_newest" / "pom.xml")
