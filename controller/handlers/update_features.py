"""UpdateFeatures (57): feature levels are raised and lowered. KIP-584, KIP-778, KIP-1022.

Versions 0-2. 0 is always an upgrade; 1 says what kind of change it is, and may ask for a dry run; 2 has no
answer for each feature any more, because all of them are changed or none. Before it a success is told per
feature, with Kafka's own word NONE for a text.

`kraft.version` is raised in the log's control records, beside the metadata. Needs ALTER on the cluster.
"""

from __future__ import annotations

from typing import Final

from controller.services import ControllerServices
from protocol.errors import ErrorCode
from protocol.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from protocol.serving.authorization import Operation
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext

RESULTS_UNTIL: Final = 1


def handle(
    services: ControllerServices, context: RequestContext, request: UpdateFeaturesRequest
) -> Pending[UpdateFeaturesResponse] | UpdateFeaturesResponse:
    if not context.allows_cluster(Operation.ALTER):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return UpdateFeaturesResponse(error_code=error, error_message=error.message)
    response = UpdateFeaturesResponse(error_message=None)
    if context.version <= RESULTS_UNTIL:
        response.results = [
            UpdateFeaturesResponse.UpdatableFeatureResult(feature=name, error_message="NONE")
            for name in dict.fromkeys(each.feature for each in request.feature_updates)
        ]
    return services.controller.update_features(request, context.version, response)
