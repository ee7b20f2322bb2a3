"""ApiVersions (18): which APIs and feature levels this controller listener has. KIP-35, KIP-511, KIP-584.

Versions 0-4. The list is read from the handlers that are there, so it promises nothing that is not
answered. Features from version 3 on; before version 4 a feature that may be at level 0 is not told
(KAFKA-17492). `kraft.version` is finalized in the log's control records and told beside the others. A
version that is not served is answered in version 0 by the dispatcher. Nothing is asked of the authorizer.
"""

from __future__ import annotations

from typing import Final

from controller.metadata.image.features import KRAFT_VERSION
from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.registry import api
from protocol.serving.request_context import RequestContext
from protocol.serving.session import is_software_name

FEATURES_SINCE: Final = 3
LEVEL_ZERO_SINCE: Final = 4


def handle(
    services: ControllerServices, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    if context.version >= FEATURES_SINCE and not (
        is_software_name(request.client_software_name) and is_software_name(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=int(served.api_key),
                min_version=served.min_version,
                max_version=min(served.max_version, api(served.api_key).stable_versions.last),
            )
            for served in services.handlers
        ]
    )
    if context.version >= FEATURES_SINCE:
        _add_features(response, services, context.version)
    return response


def _add_features(response: ApiVersionsResponse, services: ControllerServices, version: int) -> None:
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name=name, min_version=lowest, max_version=highest)
        for name, (lowest, highest) in sorted(services.controller.supported_features.items())
        if lowest > 0 or version >= LEVEL_ZERO_SINCE
    ]
    image = services.controller.image
    if image.is_empty:
        return
    levels = {**image.features.levels, KRAFT_VERSION: services.log.kraft_version}
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in sorted(levels.items())
        if level > 0
    ]
    response.finalized_features_epoch = image.offset
