"""What a publisher is."""

from __future__ import annotations

from typing import Protocol

from controller.image.cluster_image import ClusterImage, ImageDelta

__all__ = ["MetadataPublisher"]


class MetadataPublisher(Protocol):
    """Follows the cluster's image.

    The first call comes when the loader has caught up for the first time: its delta holds everything. A
    subject that did not change has None in the delta. What a publisher raises is our bug and ends the
    process.
    """

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None: ...
