"""An operator's own rules on new topics (KIP-108) and altered configs (KIP-133), and how a decision waits for
them.

The rules are code that we did not write, so they run elsewhere (`broker.policies`) and answer later, while a
decision is one step that nothing interrupts. So a decision is tried first::

    attempt on the newest image ──▶ questions that have no verdict yet ──▶ asked, all together
        ▲                                                                        │
        └────────────────────────── verdicts are known now ◀─────────────────────┘

and only the attempt that finds every verdict is appended. An attempt is a function of its arguments, so those
before it left nothing behind; what changed in the cluster meanwhile is seen by the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from controller.metadata.image.cluster_image import ClusterImage
from controller.metadata.policies import Judge, Policies, PolicyQuestion, PolicyRefusal, Verdict
from controller.quorum_controller import QuorumController
from controller.subjects.result import ControllerError, Decision
from protocol.errors import ErrorCode
from protocol.serving.pending import Pending

__all__ = ["decide_by_policies"]

R = TypeVar("R")

_NOT_YET: Final = PolicyRefusal(ErrorCode.UNKNOWN_SERVER_ERROR, "")
"""The verdict in an attempt that is not appended. It stops the decision about this resource, so nothing is
asked that depends on the missing verdict."""


def decide_by_policies(
    controller: QuorumController,
    policies: Policies | None,
    decide: Callable[[ClusterImage, Judge], Decision[R]],
    refuse: Callable[[ErrorCode], R],
) -> Pending[R]:
    """Decides as `QuorumController.decide` does, for a subject that asks policies by the `Judge` that it is
    given."""
    if policies is None:
        return controller.decide(lambda image: decide(image, _nothing_against), refuse)
    attempts = _Attempts(controller, policies, decide, refuse)
    attempts.go_on()
    return attempts.pending


def _nothing_against(question: PolicyQuestion) -> Verdict:
    return None


class _Attempts(Generic[R]):
    """A decision that is tried until all verdicts that it needs are known."""

    def __init__(
        self,
        controller: QuorumController,
        policies: Policies,
        decide: Callable[[ClusterImage, Judge], Decision[R]],
        refuse: Callable[[ErrorCode], R],
    ) -> None:
        self.pending: Pending[R] = Pending()
        self._controller = controller
        self._policies = policies
        self._decide = decide
        self._refuse = refuse
        self._verdicts: dict[PolicyQuestion, Verdict] = {}
        self._open: list[PolicyQuestion] = []

    def go_on(self) -> None:
        if self._controller.is_active:
            self._open = []
            try:
                self._decide(self._controller.newest, self._judge)
            except ControllerError:
                # The same will be raised in the decision itself, and answered there.
                self._open = []
            if self._open:
                self._policies.judge(self._open, self._judged)
                return
        decided = self._controller.decide(lambda image: self._decide(image, self._judge), self._refuse)
        decided.on_complete(self.pending.complete)

    def _judge(self, question: PolicyQuestion) -> Verdict:
        if question not in self._verdicts:
            self._open.append(question)
            return _NOT_YET
        return self._verdicts[question]

    def _judged(self, verdicts: Sequence[Verdict]) -> None:
        self._verdicts.update(zip(self._open, verdicts, strict=True))
        self.pending.attempt(self.go_on)
