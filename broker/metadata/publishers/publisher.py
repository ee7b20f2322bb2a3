"""What a publisher is, and the first of them: it shows the new image to the handlers.

The metadata cache comes first, because clients ask about the work of the other publishers through it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from controller.metadata.image.cluster_image import ClusterImage, ImageDelta

__all__ = ["MetadataCachePublisher", "MetadataPublisher", "SteppedPublisher"]


class MetadataPublisher(Protocol):
    """Follows the cluster's image.

    The first call comes when the loader has caught up for the first time: its delta holds everything. A
    subject that did not change has None in the delta. What a publisher raises is our bug and ends the
    process.
    """

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None: ...


@runtime_checkable
class SteppedPublisher(Protocol):
    """A publisher whose work may be long: between its steps the loop serves others. The next publisher, and
    the next image, come after the last step."""

    def publish_in_steps(self, delta: ImageDelta, image: ClusterImage) -> Iterator[None]: ...


class ImageHolder(Protocol):
    """What this publisher needs of `broker.metadata.cache.MetadataCache`."""

    def apply(self, image: ClusterImage, delta: ImageDelta | None = None) -> None: ...


class MetadataCachePublisher:
    """Gives each image to the metadata cache."""

    def __init__(self, cache: ImageHolder) -> None:
        self._cache = cache

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        self._cache.apply(image, delta)
