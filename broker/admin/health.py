"""Is the process well, and may clients be sent to it?

Parts of the broker register checks. A check returns None when all is well, or the sentence that an operator
needs. They run in the loop when somebody asks, so they look and do not work.
"""

from __future__ import annotations

from collections.abc import Callable

Check = Callable[[], str | None]


class Health:
    """Not ready until it is said that it is; checks of health count for readiness too."""

    def __init__(self) -> None:
        self._well: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}
        self._state = "the broker is starting"
        self._is_ready = False

    def register(self, name: str, check: Check, *, for_readiness_only: bool = False) -> None:
        (self._ready if for_readiness_only else self._well)[name] = check

    def set_ready(self) -> None:
        self._is_ready = True

    def set_not_ready(self, reason: str) -> None:
        self._is_ready, self._state = False, reason

    def problems(self) -> list[str]:
        """The reasons why the process is not well; an empty list when it is well."""
        return _complaints(self._well)

    def reasons_not_ready(self) -> list[str]:
        """The reasons why clients should not be sent here; an empty list when they may come."""
        starting = [] if self._is_ready else [self._state]
        return starting + _complaints(self._well) + _complaints(self._ready)


def _complaints(checks: dict[str, Check]) -> list[str]:
    return [f"{name}: {complaint}" for name, check in checks.items() if (complaint := check()) is not None]
