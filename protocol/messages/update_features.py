"""UpdateFeatures, API key 57. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import i8, i16, i32


@request(key=57, versions="0-2", flexible="0+", listeners="broker controller")
class UpdateFeaturesRequest(Message):
    """Raises or lowers feature levels (KIP-584).

    From version 1 on it names the type of the upgrade and can ask for validation only (KIP-778).
    """

    class FeatureUpdateKey(Struct):
        """Names a feature, and the level that it shall have."""

        feature: str = ""
        max_version_level: i16 = 0
        allow_downgrade: Annotated[bool, Until(0)] = False
        upgrade_type: Annotated[i8, Since(1)] = 1

    timeout_ms: i32 = 60000
    feature_updates: list[FeatureUpdateKey] = []
    validate_only: Annotated[bool, Since(1)] = False


@response(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse(Message):
    """Says whether the feature levels were changed."""

    class UpdatableFeatureResult(Struct):
        """Says whether the level of one feature was changed."""

        feature: str = ""
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    results: Annotated[list[UpdatableFeatureResult], Until(1), Ignorable] = []
