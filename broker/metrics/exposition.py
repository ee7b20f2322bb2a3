"""Metric families as Prometheus' text format (version 0.0.4), in portions.

A broker of ten thousand partitions has a hundred thousand samples. Written in one go they would delay every
client by a tenth of a second, so `portions` is a generator: the admin server sends one portion per turn of
the loop. The process's own metrics (`process_…`) come from prometheus_client, which is imported with the
first scrape, because the import takes 60 ms that a start need not pay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from broker.metrics.families import Family

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PORTION_SAMPLES: Final = 500

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})


def portions(families: Iterable[Family]) -> Iterator[bytes]:
    """Yields the text of all families, in portions of some 50 KB."""
    lines: list[str] = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help.translate(_HELP_ESCAPES)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for labels, value in family.samples:
            lines.append(f"{family.name}{_labels(labels)} {_number(value)}")
            if len(lines) >= PORTION_SAMPLES:
                yield _joined(lines)
                lines.clear()
    if lines:
        yield _joined(lines)


def process_portion() -> bytes:
    """The text of the metrics `process_…` of this process: processor time, memory, descriptors, start
    time."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return bytes(generate_latest(registry))


def _joined(lines: list[str]) -> bytes:
    lines.append("")
    return "\n".join(lines).encode()


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items()) + "}"


def _number(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return repr(value) if isinstance(value, float) else str(value)
