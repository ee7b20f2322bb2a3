"""The jobs that a worker process knows, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from storage.cleaner.job import CLEAN
from storage.jobs import Job
from storage.move_job import MOVE
from storage.recovery_job import RECOVER

_ALL: Final[tuple[Job[Any, Any], ...]] = (CLEAN, MOVE, RECOVER)

JOBS: Final[Mapping[str, Job[Any, Any]]] = MappingProxyType({job.name: job for job in _ALL})
