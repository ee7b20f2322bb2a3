"""Questions about the cluster itself: its feature levels, and brokers that it shall forget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from protocol.codec.message import Message
from protocol.messages.unregister_broker import UnregisterBrokerRequest
from protocol.messages.update_features import UpdateFeaturesRequest
from protocol.registry import ApiKey
from tests.support.questions.question import Case, World

K: Final = ApiKey
UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


def _levels(*wishes: tuple[str, int, int], validate_only: bool = False) -> Callable[[World, int], Message]:
    """(feature, level, kind of change); version 0 says only whether the level may go down."""

    def request(world: World, version: int) -> Message:
        wanted = UpdateFeaturesRequest(timeout_ms=10_000, validate_only=validate_only)
        for name, level, kind in wishes:
            key = UpdateFeaturesRequest.FeatureUpdateKey(name, level)
            if version >= 1:
                key.upgrade_type = kind
            else:
                key.allow_downgrade = kind != UPGRADE
            wanted.feature_updates.append(key)
        return wanted

    return request


def _forget(broker_id: int) -> Callable[[World, int], Message]:
    return lambda world, version: UnregisterBrokerRequest(broker_id)


METADATA: Final = "metadata.version"
KRAFT: Final = "kraft.version"

CASES: Final = (
    Case("levels, none", K.UPDATE_FEATURES, _levels()),
    Case("levels, as they are", K.UPDATE_FEATURES, _levels((METADATA, 30, UPGRADE), (KRAFT, 1, UPGRADE))),
    Case("levels, as they are, lowered", K.UPDATE_FEATURES, _levels((METADATA, 30, SAFE_DOWNGRADE))),
    Case("levels, lower", K.UPDATE_FEATURES, _levels((METADATA, 29, UPGRADE))),
    Case("levels, lowered", K.UPDATE_FEATURES, _levels((METADATA, 29, SAFE_DOWNGRADE))),
    Case(
        "levels, a dry run",
        K.UPDATE_FEATURES,
        _levels((METADATA, 29, SAFE_DOWNGRADE), validate_only=True),
        1,
    ),
    Case("levels, lowered at any price", K.UPDATE_FEATURES, _levels((METADATA, 7, UNSAFE_DOWNGRADE)), 1),
    Case("levels, too high", K.UPDATE_FEATURES, _levels((METADATA, 31, UPGRADE))),
    Case("levels, zero", K.UPDATE_FEATURES, _levels((METADATA, 0, UNSAFE_DOWNGRADE))),
    Case("levels, below zero", K.UPDATE_FEATURES, _levels((METADATA, -1, UPGRADE))),
    Case("levels, a change of an unknown kind", K.UPDATE_FEATURES, _levels((METADATA, 30, 9)), 1),
    Case("levels, of an unknown feature", K.UPDATE_FEATURES, _levels(("foo.version", 1, UPGRADE))),
    Case("levels, without a name", K.UPDATE_FEATURES, _levels(("", 1, UPGRADE))),
    Case("levels, an unknown feature off", K.UPDATE_FEATURES, _levels(("foo.version", 0, UPGRADE))),
    Case("levels, a feature off that is off", K.UPDATE_FEATURES, _levels(("share.version", 0, UPGRADE))),
    Case("levels, of the quorum, lowered", K.UPDATE_FEATURES, _levels((KRAFT, 0, SAFE_DOWNGRADE))),
    Case("levels, of the quorum, too high", K.UPDATE_FEATURES, _levels((KRAFT, 2, UPGRADE))),
    Case(
        "levels, one good and one bad",
        K.UPDATE_FEATURES,
        _levels((METADATA, 30, UPGRADE), ("foo.version", 1, UPGRADE)),
    ),
    Case("levels, one feature twice", K.UPDATE_FEATURES, _levels((METADATA, 30, 1), (METADATA, 29, 1))),
    Case("forget a broker that is not there", K.UNREGISTER_BROKER, _forget(7)),
    Case("forget a broker that cannot be", K.UNREGISTER_BROKER, _forget(-1)),
)  # fmt: skip
