"""The admin port: metrics by the names of Kafka's exporter, health, readiness."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.brokers.against import barnabas_only
from tests.support.brokers.broker_process import BarnabasProcess
from tests.support.clients.librdkafka import create_topic, fill

pytestmark = barnabas_only


@pytest.fixture
def admin(new_broker: Callable[..., BarnabasProcess]) -> str:
    broker = new_broker()
    create_topic(broker.bootstrap_servers, "gezählt".replace("ä", "ae"))
    fill(broker.bootstrap_servers, "gezaehlt", range(50), partition=0)
    found = re.search(r"Metrics and health at (http://\S+)/", broker.log_file.read_text())
    assert found
    return found[1]


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.read().decode()


def test_health_and_readiness(admin: str) -> None:
    assert get(f"{admin}/healthz") == (200, "ok\n")
    assert get(f"{admin}/readyz") == (200, "ok\n")
    status, text = get(f"{admin}/")
    assert status == 200
    assert "/metrics" in text
    status, text = get(f"{admin}/etc/passwd")
    assert (status, "/metrics" in text) == (404, True)


def test_metrics(admin: str) -> None:
    status, text = get(f"{admin}/metrics")
    assert status == 200
    values = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    requests = {
        sample.labels["request"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "kafka_network_requestmetrics_requests_total" and "request" in sample.labels
    }
    assert len(values) > 50
    assert requests.get("Produce", 0) >= 1
    assert requests.get("CreateTopics", 0) >= 1
