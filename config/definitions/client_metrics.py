"""The configs of a subscription to client metrics (KIP-714)."""

from __future__ import annotations

from typing import Final

from config.definition import CLIENT_METRICS, INT, LIST, MEDIUM, Definition
from config.validators import Items

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("metrics", LIST, (), Items(), MEDIUM, CLIENT_METRICS,
        "Prefixes of the client metrics that are subscribed; `*` means all, empty none."),
    Definition("interval.ms", INT, 300_000, None, MEDIUM, CLIENT_METRICS,
        "How often a matching client pushes its metrics."),
    Definition("match", LIST, (), Items(), MEDIUM, CLIENT_METRICS,
        "Which clients are meant, as `key=regular expression`; all of them must match."),
)
# fmt: on
