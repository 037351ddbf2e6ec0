# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Steps along the actions of a queue, tick by tick, without anything that guards or commands them."""

from __future__ import annotations

from collections.abc import Iterable

from remote_inference.robot.pose_geometry import ActionMasks
from remote_inference.robot.queue.action_queue import ActionQueue
from remote_inference.robot.queue.plan import Foresight, Interpolation, Progress, Step


class Steps:
    """Takes the actions of a queue."""

    def __init__(
        self, queue: ActionQueue, ticks_per_action: int, *, is_linear: bool, masks: ActionMasks | None = None
    ) -> None:
        self.queue = queue
        self.interpolation = Interpolation(ticks_per_action, is_linear=is_linear, masks=masks)
        self.progress = Progress()

    @property
    def can_step(self) -> bool:
        return self.interpolation.can_step(self._begin())

    def step(self, now_ns: int = 0) -> Step | None:
        """Return where the tick of now leads."""
        progress, step = self.interpolation.step(self._begin(), now_ns)
        self._end(progress)
        return step

    def skip(self, ticks_ns: Iterable[int], episode_id: int) -> None:
        self._end(self.interpolation.skip(self._begin(), ticks_ns, episode_id))

    def foresee(self) -> Foresight:
        return self.interpolation.foresee(self._begin())

    def _begin(self) -> Progress:
        return self.progress.go_on(self.queue.plan)

    def _end(self, progress: Progress) -> None:
        self.progress = progress
        self.queue.go_on(progress)


def drop_old(queue: ActionQueue, oldest_ns: int) -> int:
    """Let a tick drop the actions of observations from before an instant; return how many."""
    steps = Interpolation(1, is_linear=False)
    progress, dropped = steps.drop_captured_before(Progress(queue.plan), oldest_ns)
    queue.go_on(progress)
    return dropped
