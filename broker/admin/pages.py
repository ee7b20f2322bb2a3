"""Which path gives what.

/metrics   Prometheus' text, by the names of Kafka's JMX exporter
/healthz   200 while the process is well, 503 with the reasons when it is not: restart it then
/readyz    200 when clients may come, 503 with the reasons while they should not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from broker.admin.health import Health
from broker.metrics.exposition import CONTENT_TYPE, portions, process_portion
from broker.metrics.families import Collectors

_PLAIN: Final = "text/plain; charset=utf-8"
_INDEX: Final = b"Barnabas\n\n/metrics\n/healthz\n/readyz\n"


class Page(NamedTuple):
    """An HTTP answer. status: the HTTP status code. portions: the body in parts, of which one is sent per
    turn of the loop."""

    status: int
    content_type: str
    portions: Iterable[bytes]


class Pages:
    def __init__(self, health: Health, collectors: Collectors) -> None:
        self._health = health
        self._collectors = collectors

    def page(self, path: str) -> Page:
        if path == "/metrics":
            return Page(200, CONTENT_TYPE, self._metrics())
        if path == "/healthz":
            return _verdict(self._health.problems())
        if path == "/readyz":
            return _verdict(self._health.reasons_not_ready())
        if path == "/":
            return Page(200, _PLAIN, (_INDEX,))
        return Page(404, _PLAIN, (b"There are /metrics, /healthz and /readyz.\n",))

    def _metrics(self) -> Iterator[bytes]:
        yield from portions(self._collectors)
        yield process_portion()


def _verdict(complaints: list[str]) -> Page:
    if not complaints:
        return Page(200, _PLAIN, (b"ok\n",))
    return Page(503, _PLAIN, ("".join(f"{complaint}\n" for complaint in complaints).encode(),))
