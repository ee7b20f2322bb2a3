"""Logging to standard error: in Kafka's pattern, or as one JSON object a line.

    [2026-11-21 09:15:02,114] INFO Opened 12 logs (barnabas.storage)
    {"time": "2026-11-21T09:15:02.114Z", "level": "INFO", "logger": "barnabas.storage", "message": "…"}

Kafka's pattern is `[%d] %p %m (%c)%n` with local time. A record with an exception is followed by its
stack, in JSON as the field `exception`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from types import MappingProxyType
from typing import Final

LEVEL_NAMES: Final = MappingProxyType({"WARNING": "WARN", "CRITICAL": "FATAL"})


class KafkaFormatter(logging.Formatter):
    """`[time] LEVEL message (logger)`, levels as Log4j names them."""

    def __init__(self) -> None:
        super().__init__("[%(asctime)s] %(levelname)s %(message)s (%(name)s)")

    def format(self, record: logging.LogRecord) -> str:
        record.levelname = LEVEL_NAMES.get(record.levelname, record.levelname)
        return super().format(record)


class JsonFormatter(logging.Formatter):
    """One object a line, time in UTC."""

    def format(self, record: logging.LogRecord) -> str:
        milliseconds = int(record.created * 1000)
        second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds // 1000))
        fields = {
            "time": f"{second}.{milliseconds % 1000:03d}Z",
            "level": LEVEL_NAMES.get(record.levelname, record.levelname),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


def set_up_logging(form: str) -> None:
    """form: `barnabas.log.format`, text or json. Everything from INFO up goes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else KafkaFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    # Nobody reads them, and each record would look them up.
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
