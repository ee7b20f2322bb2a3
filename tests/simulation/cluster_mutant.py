"""What a mutant of the cluster is: a rule of the product that is broken on purpose, and where that shows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

__all__ = ["ClusterMutant", "Patch", "everywhere", "wrapped"]

Patch = pytest.MonkeyPatch

_PRODUCT = ("broker", "controller", "storage")


@dataclass(frozen=True)
class ClusterMutant:
    """breaks: the rule that strikes. arena, seed: where it does, a key of `mutant_arenas.ARENAS` or of
    `cluster_fates.FATES`. says: what the failure must say beside the rule; empty if the rule is enough."""

    name: str
    breaks: str
    apply: Callable[[Patch], None]
    arena: str
    seed: int
    says: str = ""


def everywhere(patch: Patch, function: Callable[..., Any], replacement: Callable[..., Any]) -> None:
    """Also where it has been imported by name."""
    found = 0
    for name, module in sorted(sys.modules.items()):
        if name.partition(".")[0] not in _PRODUCT:
            continue
        for attribute, value in list(vars(module).items()):
            if value is function:
                patch.setattr(module, attribute, replacement)
                found += 1
    assert found, function


def wrapped(patch: Patch, owner: Any, name: str, change: Callable[..., Any]) -> None:
    """Puts `change` in the place of a method; it is called with the genuine one before its arguments."""
    genuine = getattr(owner, name)
    patch.setattr(owner, name, lambda *arguments, **named: change(genuine, *arguments, **named))
