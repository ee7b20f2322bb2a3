"""Quotas of users who have logged in: set by Kafka's tool, held on all their connections and on no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.brokers.with_passwords import PASSWORDS, password_broker
from tests.support.clients.librdkafka import create_topic, settings, until
from tests.support.genuine.tool_server import ToolServer

pytestmark = pytest.mark.java

RATE = 10_000
"""Bytes a second; ten times as much is let through at once."""


def throttles(address: str, topic: str, **login: str) -> list[float]:
    """What a new client was told, who writes twice what is let through."""
    told: list[float] = []
    words: dict[str, Any] = settings(address, client_id="the same for all", **login)
    words["throttle_cb"] = lambda event: told.append(event.throttle_time)
    producer = Producer(words)
    producer.produce(topic, b"v" * 20 * RATE)
    assert producer.flush(60) == 0
    producer.poll(0.2)
    return [seconds for seconds in told if seconds]


def login(user: str, password: str) -> dict[str, str]:
    named = {"sasl_mechanism": "PLAIN", "sasl_username": user, "sasl_password": password}
    return {"security_protocol": "SASL_PLAINTEXT"} | named


def test_a_user_is_held_and_others_are_not(tmp_path: Path, tool_server: ToolServer) -> None:
    guarded = password_broker(tmp_path / "data")
    with guarded.broker:
        topic = create_topic(guarded.open, "t")

        def configs(*words: str) -> str:
            done = tool_server.run("kafka-configs", "--bootstrap-server", guarded.open, *words)
            assert done.code == 0, done
            return done.out

        entity = ("--entity-type", "users", "--entity-name", "alice")
        changed = configs("--alter", *entity, "--add-config", f"producer_byte_rate={RATE}")
        assert changed == "Completed updating config for user alice.\n"
        shown = f"Quota configs for user-principal 'alice' are producer_byte_rate={RATE}.0\n"
        until(lambda: configs("--describe", *entity) == shown, "the broker learns of it")
        alice, bob = login("alice", PASSWORDS["PLAIN"]), login("bob", "bob-secret")
        assert throttles(guarded.secured, topic, **bob) == []
        assert throttles(guarded.open, topic) == []
        assert max(throttles(guarded.secured, topic, **alice)) <= 11
        assert max(throttles(guarded.short, topic, **alice)) > 15, "what she wrote there counts here"
