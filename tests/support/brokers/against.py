"""Which broker the tests run against, and what of Barnabas they cannot ask of Apache Kafka."""

from __future__ import annotations

import os
from typing import Final

import pytest

AGAINST_KAFKA: Final = os.environ.get("BARNABAS_TEST_AGAINST") == "kafka"

barnabas_only: Final = pytest.mark.skipif(
    AGAINST_KAFKA, reason="Apache Kafka does this differently, or not at all"
)
"""For what is ours alone: the admin port, the command line, APIs that we do not serve yet."""
