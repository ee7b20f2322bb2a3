"""Who looks at committed images hears of all of them, also of those that came whole."""

from __future__ import annotations

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.log import LeaderAndEpoch, SnapshotId
from tests.support.rigs.controllers import ControllerFixture


def listening(fixture: ControllerFixture) -> list[ClusterImage]:
    heard: list[ClusterImage] = []
    fixture.controller.on_image(lambda image, _: heard.append(image))
    return heard


def test_an_image_out_of_a_snapshot_is_told() -> None:
    """A controller that joins by a snapshot in a quiet cluster must see that it is not registered."""
    fixture = ControllerFixture()
    fixture.settle()
    image = fixture.controller.image
    heard = listening(fixture)
    fixture.controller.load_snapshot(SnapshotId(image.offset + 1, image.epoch), image)
    assert heard == [image]


def test_a_lost_leadership_is_told() -> None:
    """What it decided may be lost, its own registration too."""
    fixture = ControllerFixture()
    heard = listening(fixture)
    fixture.controller.leader_changed(LeaderAndEpoch(2, fixture.log.leader.epoch + 1))
    assert heard == [fixture.controller.image]
