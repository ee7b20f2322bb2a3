"""Registration of controllers (KIP-919): how tools and brokers learn where the other controllers listen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from controller.metadata.image.brokers import BrokerEndpoint, VersionRange
from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.metadata_version import CONTROLLER_REGISTRATION_LEVEL
from controller.subjects.result import Decision
from protocol.errors import ErrorCode
from protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from protocol.metadata_log.registrations import RegisterControllerRecord

__all__ = ["register_controller", "registration_request"]

TOO_OLD: Final = "The current MetadataVersion is too old to support controller registrations."


def register_controller(
    image: ClusterImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """The record of a registration. It replaces the earlier one of the same id; a repeated request makes no
    second record. Below 3.7-IV0 there are none, because older releases cannot read them."""
    if image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        return Decision(
            (),
            ControllerRegistrationResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message=TOO_OLD),
        )
    response = ControllerRegistrationResponse(error_message=None)
    known = image.controllers.by_id.get(request.controller_id)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            RegisterControllerRecord.ControllerEndpoint(
                name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for e in request.listeners
        ],
        features=[
            RegisterControllerRecord.ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    if known is not None and known.record == record:
        return Decision((), response)
    return Decision((record,), response)


def registration_request(
    controller_id: int,
    incarnation_id: bytes,
    endpoints: Mapping[str, BrokerEndpoint],
    features: Mapping[str, VersionRange],
) -> ControllerRegistrationRequest:
    """The request with which a controller registers at the active controller."""
    return ControllerRegistrationRequest(
        controller_id=controller_id,
        incarnation_id=incarnation_id,
        listeners=[
            ControllerRegistrationRequest.Listener(
                name=name, host=e.host, port=e.port, security_protocol=e.security_protocol
            )
            for name, e in endpoints.items()
        ],
        features=[
            ControllerRegistrationRequest.Feature(
                name=name, min_supported_version=r.lowest, max_supported_version=r.highest
            )
            for name, r in sorted(features.items())
        ],
    )
