"""ApiVersions (18): which APIs in which versions, and which features, a client finds here. KIP-35, KIP-511,
KIP-584.

Versions 0-4.

* 0: error code, and first and last version of each API;
* 1: throttle time; 2: the throttle comes after the answer (KIP-219);
* 3: the client says what software it is, and gets the features that are supported and finalized;
* 4: supported features whose lowest level is 0 are told too; older clients stumble over them (KAFKA-17492).

The list is read from the handlers that are there, so it promises nothing that is not answered. Produce is
told from version 0 although 0 to 2 are refused: librdkafka decides by that number whether a broker knows
compression and message format 2 at all (KAFKA-18659). Versions that are not stable yet are not told. Of what
is passed on to the controller only the versions are told that the active controller serves too, as far as
that is known: it may be of another release.
Nothing is asked of the authorizer: this is how a client learns how to authenticate.

A version that is not served is answered in version 0 by the dispatcher, before this code. Left out:
KIP-1242's check of cluster and node id, which comes with version 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from broker.handlers.forwarding import FORWARDED
from broker.services import HasController, HasFeatures, HasFinalizedByQuorum, HasHandlers, HasMetadata
from controller.metadata.image.features import METADATA_VERSION
from protocol.errors import ErrorCode
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.registry import ApiKey, api
from protocol.serving.handler_table import HandlerTable
from protocol.serving.request_context import RequestContext
from protocol.serving.session import is_software_name

FIRST_PRODUCE_VERSION_TOLD: Final = 0

FORWARDABLE: Final = frozenset({*FORWARDED, ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
"""What the controller answers, wholly or in part."""


class ApiVersionsServices(
    HasMetadata, HasHandlers, HasController, HasFeatures, HasFinalizedByQuorum, Protocol
):
    """What this handler needs of the broker's services."""


def handle(
    services: ApiVersionsServices, context: RequestContext, request: ApiVersionsRequest
) -> ApiVersionsResponse:
    version = context.version
    if version >= 3 and not (
        is_software_name(request.client_software_name) and is_software_name(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    response = ApiVersionsResponse(api_keys=told_apis(services.handlers, services.controller.versions()))
    if version >= 3:
        _add_features(response, services, version)
    return response


def told_apis(
    handlers: HandlerTable, controller: Mapping[int, tuple[int, int]] | None
) -> list[ApiVersionsResponse.ApiVersion]:
    """First and last version of each API, in the order of the keys.

    controller: the versions that the active controller serves, by API key; None if they are not known.
    """
    told = []
    for registration in handlers:
        first, last = registration.min_version, registration.max_version
        last = min(last, api(registration.api_key).stable_versions.last)
        if registration.api_key == ApiKey.PRODUCE:
            first = FIRST_PRODUCE_VERSION_TOLD
        if controller is not None and registration.api_key in FORWARDABLE:
            first_there, last_there = controller.get(registration.api_key, (0, -1))
            first, last = max(first, first_there), min(last, last_there)
        if first <= last:
            told.append(ApiVersionsResponse.ApiVersion(int(registration.api_key), first, last))
    return told


def _add_features(response: ApiVersionsResponse, services: ApiVersionsServices, version: int) -> None:
    """Supported ranges are this broker's, finalized levels the cluster's; unknown before the first image."""
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(name, lowest, highest)
        for name, (lowest, highest) in services.features.items()
        if lowest > 0 or version >= 4
    ]
    image = services.metadata.image
    levels = dict(image.features.levels)
    if METADATA_VERSION not in levels:
        return
    levels.update(services.finalized_by_quorum)
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name, level, level)
        for name, level in sorted(levels.items())
        if level > 0
    ]
    response.finalized_features_epoch = image.offset
