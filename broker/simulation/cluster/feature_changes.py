"""What an operator changes of the protocols that clients speak: `transaction.version` and `group.version`.

    transaction.version   0, 1 or 2, up and down; clients that follow it change from one protocol to the other
                          between two transactions (KIP-890)
    group.version         0 or 1; without it the coordinator answers no heartbeat of the newer group protocol
                          (KIP-848), and its consumers begin again when it is back

Both are allowed at any time, and neither may cost a record or a promise. When the trouble is over groups must
settle, so `group.version` is 1 again then.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.clients.admin_client import AdminClient
from broker.simulation.cluster.cluster_changes import newest_image
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import drawn_duration_ms
from controller.metadata.image.features import GROUP_VERSION, TRANSACTION_VERSION

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["CHANGE_TRANSACTION_VERSION", "FEATURE_VERBS"]

CHANGE_TRANSACTION_VERSION: Final = "change transaction.version"
LAST_TRANSACTION_VERSION: Final = 2
LONGEST_WITHOUT_GROUPS_MS: Final = 10_000
LOOK_EVERY_MS: Final = 500


def _transaction_version(run: ClusterRun, step: ClusterStep) -> str | None:
    image = newest_image(run.world)
    if image is None:
        return None
    level = image.features.level(TRANSACTION_VERSION)
    others = [each for each in range(LAST_TRANSACTION_VERSION + 1) if each != level]
    wanted = step.random().one_of(others)
    run.admin.carry_out(_update(run.admin, TRANSACTION_VERSION, level, wanted))
    return f"{TRANSACTION_VERSION} shall be {wanted} instead of {level}"


async def _update(admin: AdminClient, name: str, level: int, wanted: int) -> None:
    await admin.update_feature(name, wanted, is_downgrade=wanted < level)


def _group_version(run: ClusterRun, step: ClusterStep) -> str | None:
    image = newest_image(run.world)
    if image is None or not image.features.level(GROUP_VERSION):
        return None
    duration_ms = drawn_duration_ms(step.random(), most_ms=LONGEST_WITHOUT_GROUPS_MS)
    run.admin.under_way[GROUP_VERSION] = None
    run.admin.carry_out(_without_group_version(run, duration_ms))
    return f"{GROUP_VERSION} shall be 0 for {duration_ms} ms"


async def _without_group_version(run: ClusterRun, duration_ms: int) -> None:
    """It is put back whatever was answered: an answer that was lost may hide a change."""
    await _update(run.admin, GROUP_VERSION, 1, 0)
    await run.admin.sleep_ms(duration_ms)
    await _update(run.admin, GROUP_VERSION, 0, 1)


def _keep_group_version(run: ClusterRun) -> None:
    if GROUP_VERSION in run.admin.under_way:
        run.admin.carry_out(_kept(run))


async def _kept(run: ClusterRun) -> None:
    """A request that a node has had for long, as it stood still, may take it away once more."""
    while not run.admin.is_finishing:
        image = newest_image(run.world)
        if image is not None and not image.features.level(GROUP_VERSION):
            await _update(run.admin, GROUP_VERSION, 0, 1)
        await run.admin.sleep_ms(LOOK_EVERY_MS)


FEATURE_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        CHANGE_TRANSACTION_VERSION: Verb(_transaction_version, 4),
        "change group.version": Verb(_group_version, 2, _keep_group_version),
    }
)
