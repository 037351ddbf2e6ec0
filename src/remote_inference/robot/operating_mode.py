# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Who moves the robot: the policy, a person after a takeover, or nobody while it is paused or stopped."""

from __future__ import annotations

from remote_inference.robot.motion.command_mode import STARTS_WHEN_SAFE, CommandMode
from remote_inference.robot.requests.request_cycle import RequestCycle
from remote_inference.robot.safety.effects import Effect, Inform, StopLatched
from remote_inference.robot.safety.state_machine import State
from remote_inference.robot.safety.stop_inputs import StopInputs
from remote_inference.robot.safety.supervisor import Supervisor

STARTS_PAUSED = "the node starts so (autostart: false)"
CALLED = "pause was called"
PAUSED_MEANWHILE = "paused meanwhile"
STOPPED_OUTSIDE = "another process has stopped the controllers"


class OperatingMode:
    """Changes the mode for an operator, a stop input or the start. For the engine's thread.

    The mode itself stands in the operator command, which the control thread reads. Times are monotonic [ns].
    """

    def __init__(
        self,
        control: CommandMode,
        stops: StopInputs,
        cycle: RequestCycle,
        supervisor: Supervisor,
        *,
        autostart: bool,
        waits_for_stops: bool,
    ) -> None:
        """Begin paused, or with `autostart` driven by the policy.

        waits_for_stops: a robot that starts by itself waits until `stops.find_obstacle` finds none.
        """
        self._control = control
        self._stops = stops
        self._cycle = cycle
        self._supervisor = supervisor
        self._starts_when_safe = autostart and waits_for_stops
        self._stopped_by = ""  # the latched stop that has been carried out
        self._mistrusted = ""  # what a controller makes of its commands otherwise than is meant, in words
        if not autostart or waits_for_stops:
            control.pause(STARTS_WHEN_SAFE if autostart else STARTS_PAUSED)
        else:
            control.change(paused=False)

    @property
    def idle(self) -> bool:
        """True while the robot needs no chunk."""
        operator = self._control.operator
        return operator.paused or operator.taken_over

    @property
    def refusal(self) -> str:
        """Why all orders but a pause are refused, in words; empty until the robot has given up."""
        machine = self._supervisor.machine
        return f"stopped: {machine.cause}" if machine.state is State.DEAD else ""

    def pause(self, cause: str) -> None:
        """Stop requests and commands, keep the queue. cause: in words."""
        self._starts_when_safe = False
        self._control.pause(cause)
        self._cycle.abandon()
        self._supervisor.want_nothing()

    def resume(self, now_ns: int, pauses: int | None = None) -> str:
        """Request and command again; return why not, or an empty string. pauses: as of `Engine.resume`."""
        if problem := self.refusal or self._stops.find_obstacle(now_ns) or self._mistrusted:
            return problem
        if not self._control.resume(pauses, now_ns):
            return PAUSED_MEANWHILE
        self._starts_when_safe = False
        self._supervisor.forgive()
        self._cycle.begin_history(now_ns)
        return ""

    def mistrust(self, problem: str) -> None:
        """Pause for a controller that takes its commands otherwise than is meant; "": none does any more."""
        self._mistrusted = problem
        if problem and not self._control.operator.paused:
            self.pause(problem)

    def check_stops(self, now_ns: int) -> list[Effect]:
        """Pause for a latched stop, once. The control thread has stopped commanding by itself."""
        stop = self._stops.check(now_ns)
        if self._starts_when_safe and not self.resume(now_ns, pauses=0):  # since the start
            return []
        if not stop or stop == self._stopped_by:
            return []
        self._stopped_by = stop
        self.pause(f"stopped by {stop}")
        self.drop_plan(now_ns)
        return [StopLatched(stop)]

    def clear_stop(self, now_ns: int, heard: int | None = None) -> tuple[str, list[Effect]]:
        """Release a latched stop; the robot stays paused. Return why it is not released, or ''.

        heard: as of `Engine.clear_stop`.
        """
        if problem := self.refusal:
            return problem, []
        effects = self.check_stops(now_ns)  # paused before it may be released
        if problem := self._stops.clear(self._stopped_by, now_ns, heard):
            return problem, effects
        cleared, self._stopped_by = self._stopped_by, ""
        return "", [*effects, Inform(f"stop cleared: {cleared}")]

    def take_over(self, now_ns: int) -> list[Effect]:
        """Let a person command instead of the policy, which is asked nothing."""
        self._control.change(taken_over=True)
        self.drop_plan(now_ns)
        return [Inform("taken over by a person")]

    def release(self, now_ns: int) -> tuple[str, list[Effect]]:
        """Let the policy go on from where the arm is, in the same episode. Return why not, or ''."""
        if problem := self.refusal or ("" if self._control.operator.taken_over else "not taken over"):
            return problem, []
        self._begin_plan(now_ns)
        self._control.change(taken_over=False, forget=True, blend_in=True)
        return "", [Inform("released to the policy")]

    def drop_plan(self, now_ns: int) -> None:
        """Empty the queue, and use nothing of a sensor or a person from before now: a plan begins anew."""
        self._begin_plan(now_ns)
        self._control.change(forget=True, person_since_ns=now_ns)

    def _begin_plan(self, now_ns: int) -> None:
        self._cycle.drop_plan(now_ns)
        self._supervisor.begin_plan()
