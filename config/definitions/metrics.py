"""The broker configs of metrics, and of the metrics that clients push."""

from __future__ import annotations

from typing import Final

from config.definition import CLUSTER_WIDE, INT, LIST, LONG, LOW, READ_ONLY, STRING, Definition
from config.validators import Items, at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("metric.reporters", LIST,
        ("org.apache.kafka.common.metrics.JmxReporter",), Items(), LOW, CLUSTER_WIDE,
        "In Kafka Java classes that report metrics; metrics of this broker are read at "
        "/metrics of the admin listener."),
    Definition("metrics.num.samples", INT, 2, at_least(1), LOW, READ_ONLY,
        "In Kafka the samples from which a rate is computed."),
    Definition("metrics.sample.window.ms", LONG, 30000, at_least(1), LOW, READ_ONLY,
        "In Kafka the length of a sample."),
    Definition("metrics.recording.level", STRING, "INFO", None, LOW, READ_ONLY,
        "In Kafka the detail of recorded metrics."),
    Definition("kafka.metrics.reporters", LIST, (), Items(), LOW, READ_ONLY,
        "In Kafka Java classes that report the older kind of metrics."),
    Definition("kafka.metrics.polling.interval.secs", INT, 10, at_least(1), LOW, READ_ONLY,
        "In Kafka how often those reporters are called."),
    Definition("telemetry.max.bytes", INT, 1_048_576, at_least(1), LOW, READ_ONLY,
        "Largest compressed payload of client metrics (KIP-714)."),
)
# fmt: on
