"""The names, kinds and labels of Kafka's metrics as its users scrape them, from the list beside this file."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Final

__all__ = ["jmx_exporter_names"]

LIST: Final = Path(__file__).with_name("jmx_exporter_names.tsv")


def jmx_exporter_names() -> dict[str, tuple[str, set[str]]]:
    """By name: the kind in lower case, and the labels."""
    with LIST.open() as lines:
        rows = csv.reader((line for line in lines if not line.startswith("#")), delimiter="\t")
        return {
            name: (kind.lower(), set(filter(None, labels.replace("-", "_").split(","))))
            for name, kind, labels in rows
        }
