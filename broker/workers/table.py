"""The jobs that a worker process knows, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from storage.cleaner.job import CLEAN
from storage.jobs import Job
from storage.recovery_job import RECOVER
from storage.replica_directory_move_job import MOVE

_ALL: Final[tuple[Job[Any, Any], ...]] = (CLEAN, MOVE, RECOVER)

JOBS: Final[Mapping[str, Job[Any, Any]]] = MappingProxyType({job.name: job for job in _ALL})
