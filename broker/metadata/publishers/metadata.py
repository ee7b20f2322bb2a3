"""Shows the new image to the handlers; the first publisher, because the others' work is asked about through
it."""

from __future__ import annotations

from typing import Protocol

from controller.metadata.image.cluster_image import ClusterImage, ImageDelta

__all__ = ["MetadataCachePublisher"]


class ImageHolder(Protocol):
    """`broker.metadata.cache.MetadataCache`, as far as it matters here."""

    def apply(self, image: ClusterImage, delta: ImageDelta | None = None) -> None: ...


class MetadataCachePublisher:
    """Hands each image to the metadata cache."""

    def __init__(self, cache: ImageHolder) -> None:
        self._cache = cache

    def publish(self, delta: ImageDelta, image: ClusterImage) -> None:
        self._cache.apply(image, delta)
