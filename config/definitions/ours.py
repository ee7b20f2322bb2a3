"""What this broker has beyond Kafka's configs; every name begins with `barnabas.`."""

from __future__ import annotations

from typing import Final

from config.definition import LOW, MEDIUM, READ_ONLY, STRING, Definition
from config.validators import NonNull, OneOf

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("barnabas.record.validation", STRING, "auto", OneOf(("auto", "full")), MEDIUM, READ_ONLY,
        "Whether records inside a produced batch are walked only where its header and checksum cannot "
        "decide (auto), or always, as Kafka does (full)."),
    Definition("barnabas.admin.listener", STRING, "127.0.0.1:9644", NonNull(), MEDIUM, READ_ONLY,
        "`host:port` of /metrics, /healthz and /readyz; port 0 lets the system choose, empty is off."),
    Definition("barnabas.log.format", STRING, "text", OneOf(("text", "json")), LOW, READ_ONLY,
        "Log lines on standard error in Kafka's pattern (text), or one JSON object a line (json)."),
    Definition("barnabas.recovery.corrupt", STRING,
        "auto", OneOf(("auto", "refuse", "truncate")), MEDIUM, READ_ONLY,
        "What happens when recovery after a crash meets a broken batch with valid ones behind it: the log is "
        "cut off at that batch with a warning (truncate, as Kafka does), or the partition is refused and "
        "named (refuse). auto cuts what was never known to be synced, as a power cut leaves it, and refuses "
        "what the disk has changed since."),
)
# fmt: on
