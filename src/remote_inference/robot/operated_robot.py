# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A robot under its operator: moved by the policy, by a person after a takeover, or not while it is stopped.

The mode itself stands in the operator command, which the control thread reads. Times are monotonic [ns].
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from remote_inference.base.contract.contract import Contract
from remote_inference.robot.command import Float64Array
from remote_inference.robot.config import RobotConfig
from remote_inference.robot.motion.command_mode import STARTS_WHEN_SAFE, HumanCommands, StopInputs
from remote_inference.robot.motion.playback import Playback
from remote_inference.robot.motion.rules import MotionRules
from remote_inference.robot.motion.state import Tick
from remote_inference.robot.queue.action_queue import ActionQueue, DelayPolicy
from remote_inference.robot.queue.ensemble import Ensemble
from remote_inference.robot.requests.request_cycle import RequestCycle
from remote_inference.robot.safety.effects import Effect, Inform, StopLatched, Warn
from remote_inference.robot.safety.guard import Guard
from remote_inference.robot.safety.measured_arm import MeasuredArm
from remote_inference.robot.safety.state_machine import State
from remote_inference.robot.safety.supervisor import Supervisor
from remote_inference.robot.step_lock import StepLock

STARTS_PAUSED = "the node starts so (autostart: false)"
CALLED = "pause was called"
PAUSED_MEANWHILE = "paused meanwhile"
STOPPED_OUTSIDE = "another process has stopped the controllers"


class OperatedRobot(ABC):
    """The parts that move a robot, and what operator, stop inputs and control thread do with them."""

    def __init__(self, contract: Contract, config: RobotConfig, lock: StepLock | None) -> None:
        """Begin paused, or with `autostart` driven by the policy, once `stops.find_obstacle` finds none."""
        self._contract = contract
        self._config = config
        self.lock = lock or StepLock()
        self.queue = ActionQueue(
            DelayPolicy(config.delay_policy),
            self.lock,
            to_robot=contract.action_units.to_robot,
            ensemble=Ensemble(config.ensemble_coeff, contract.actions) if config.ensembles else None,
        )
        self.guard = Guard(contract.actions, contract.period_s)
        self.stops = StopInputs(contract.stops, self.lock)
        self.human = HumanCommands(contract.takeover.silent_s, self.lock) if contract.takeover else None
        rules = MotionRules.of(contract, self.guard, config)
        self.playback = Playback(rules, self.queue, stops=self.stops, human=self.human, lock=self.lock)
        self.control = self.playback.control
        self.arm = MeasuredArm(contract, self.guard)
        self.cycle = RequestCycle(contract, config, self.queue, self.guard)
        self._supervisor = Supervisor(config)
        self.machine = self._supervisor.machine
        self._unsubscribed: tuple[str, ...] = ()  # destinations, by the control thread
        self._stopped_by = ""  # the latched stop that has been carried out
        self._mistrusted = ""  # what a controller makes of its commands otherwise than is meant, in words
        self._pauses_at_release = ""  # why the robot pauses once the person lets it go, in words
        self._starts_when_safe = config.autostart and bool(contract.stops)
        if not config.autostart or contract.stops:
            self.control.pause(STARTS_WHEN_SAFE if config.autostart else STARTS_PAUSED)
        else:
            self.control.change(paused=False)

    @abstractmethod
    def tick(self, now_ns: int) -> list[Effect]:
        """Return the effects that are due. Called at every event and at least every 20 ms."""

    # -- the engine's thread ---------------------------------------------------------------------------------

    @property
    def dead(self) -> bool:
        """True after the engine has given up: it emits nothing any more."""
        return self.machine.state is State.DEAD

    @property
    def cause(self) -> str:
        """Why the robot is in its state, in words; also which servers it waits for while they load."""
        return self._supervisor.cause

    @property
    def refusal(self) -> str:
        """Why all orders but a pause are refused, in words; empty until the engine has given up."""
        return f"stopped: {self.machine.cause}" if self.dead else ""

    @property
    def _idle(self) -> bool:
        """True while the robot needs no chunk."""
        operator = self.control.operator
        return operator.paused or operator.taken_over

    def pause(self, cause: str = CALLED) -> list[Effect]:
        """Stop requests and commands, keep the queue. cause: in words, for states and recordings."""
        self._starts_when_safe = False
        self.control.pause(cause)
        self.cycle.abandon()
        self._supervisor.want_nothing()
        return []

    def resume(self, now_ns: int, pauses: int | None = None) -> tuple[str, list[Effect]]:
        """Request and command again; the next tick drops actions that have aged out meanwhile.

        Return why not, or '': the engine has given up, what `stops.find_obstacle` finds, or a pause that is
        newer than this order. pauses: the engine's when the order was given; None: it is given now.
        """
        problem = self._resume(now_ns, pauses)
        return problem, [] if problem else self.tick(now_ns)

    def _resume(self, now_ns: int, pauses: int | None) -> str:
        if problem := self.refusal or self.stops.find_obstacle(now_ns) or self._mistrusted:
            return problem
        if not self.control.resume(pauses, now_ns):
            return PAUSED_MEANWHILE
        self._starts_when_safe = False
        self._supervisor.forgive()
        self.cycle.history.begin(now_ns)
        return ""

    def take_controllers(self, problem: str) -> list[Effect]:
        """Note that a controller treats its commands otherwise than the contract says; "" when none does.

        The robot pauses for it, and does not resume before it is mended.
        """
        self._mistrusted = problem
        if problem and not self.paused:
            self.pause(problem)
        return [Warn(problem, repeats=False)] if problem else []

    def _check_stops(self, now_ns: int) -> list[Effect]:
        """Pause for a latched stop, once. The control thread has stopped commanding by itself."""
        stop = self.stops.check(now_ns)
        if self._starts_when_safe and not self._resume(now_ns, pauses=0):  # since the start
            return []
        if not stop or stop == self._stopped_by:
            return []
        self._stopped_by = stop
        self.pause(f"stopped by {stop}")
        self._drop_plan(now_ns)
        return [StopLatched(stop)]

    def clear_stop(self, now_ns: int, heard: int | None = None) -> tuple[str, list[Effect]]:
        """Release a latched stop; the robot stays paused. Return why it is not released, or ''.

        heard: of `stops` when the order was given, which is no answer to a later one; None: it is given now.
        """
        stop = self.stops.latched
        if problem := self.refusal:
            return problem, []
        effects = self._check_stops(now_ns)  # paused before it may be released
        if problem := self.stops.clear(self._stopped_by, now_ns, heard):
            return problem, effects
        cleared, self._stopped_by = self._stopped_by, ""
        if stop == self.arm.leap:  # of another stop's cause the person has not read it
            self.arm.accept_leap()
        return "", [*effects, Inform(f"stop cleared: {cleared}")]

    def release(self, now_ns: int) -> tuple[str, list[Effect]]:
        """Let the policy go on from where the arm is, in the same episode. Return why not, or ''."""
        if problem := self.refusal or ("" if self.taken_over else "not taken over"):
            return problem, []
        self._begin_plan(now_ns)
        self.control.change(taken_over=False, forget=True, blend_in=True)
        cause, self._pauses_at_release = self._pauses_at_release, ""
        effects = self.pause(cause) if cause else []
        return "", [Inform("released to the policy"), *effects, *self.tick(now_ns)]

    def _drop_plan(self, now_ns: int) -> None:
        """Empty the queue, and use nothing of a sensor or a person from before now: a plan begins anew."""
        self._begin_plan(now_ns)
        self.control.change(forget=True, person_since_ns=now_ns)

    def _begin_plan(self, now_ns: int) -> None:
        self.cycle.drop_plan(now_ns)
        self._supervisor.begin_plan()

    # -- any thread: at once, without waiting for the engine's -----------------------------------------------

    @property
    def paused(self) -> bool:
        """True while the robot requests and commands nothing."""
        return self.control.operator.paused

    @property
    def pause_cause(self) -> str:
        """Why the robot is paused, in words; empty while it is not."""
        return self.control.operator.pause_cause

    @property
    def pauses(self) -> int:
        """How many pauses were called since start-up: one that is called later undoes what waits now."""
        return self.control.operator.pauses

    @property
    def taken_over(self) -> bool:
        """True while a person commands."""
        return self.control.operator.taken_over

    def commands_since_ns(self) -> int | None:
        """Return since when those decide who command now, None while the robot is stopped.

        A robot on its way home is not stopped. A person who has taken over decides since then.
        """
        operator = self.control.operator
        if operator.paused or self.stops.latched or (operator.halted and not operator.wants_home):
            return None
        return operator.person_since_ns

    def misses_person(self, now_ns: int) -> bool:
        """Return whether a person has taken over, and says nothing."""
        operator = self.control.operator
        return (
            operator.taken_over
            and self.human is not None
            and self.human.newest(now_ns, operator.person_since_ns) is None
        )

    def pause_at_once(self, cause: str = CALLED) -> None:
        """Command nothing from the next control tick on; `pause` does the rest."""
        self.control.pause(cause, count=True)

    def take_over_at_once(self, now_ns: int) -> None:
        """Execute no action of the policy from the next control tick on; `take_over` does the rest.

        Only where `takeover_refusal` is empty: that depends on the engine's thread, and so does not belong to
        an input, which a replay repeats.
        """
        self.control.change(taken_over=True, forget=True, person_since_ns=now_ns)

    def take_outside_stop(self, cause: str = STOPPED_OUTSIDE) -> None:
        """Pause at once because another process has stopped the controllers; cause: in words.

        The next command begins where the joints are measured from now on.
        """
        self.control.pause(cause, lose=True, count=True)

    def take_back_command(self, loses: bool = True) -> None:
        """Undo the state changes of the last tick, whose command was not sent.

        loses: the next command begins where they are measured from now on. False: where they would have been.
        """
        self.control.change(lose=loses, withhold=True)

    def halt_at_once(self) -> None:
        """Execute no action from the next control tick on, for good."""
        self.control.halt()

    def hear_stop(self, name: str, stops: bool, now_ns: int) -> None:
        """Handle a message of a stop input. stops: whether it stops the robot."""
        self.stops.receive(name, stops=stops, now_ns=now_ns)

    def hear_person(self, action: Float64Array, now_ns: int) -> None:
        """Store a command `[action_dim]` of the contract's takeover topic."""
        assert self.human is not None, "the contract names a takeover topic"
        self.human.deposit(action, now_ns)

    # -- the control thread ----------------------------------------------------------------------------------

    def play(self, now_ns: int, unsubscribed: tuple[str, ...], heard_ns: int | None = None) -> Tick:
        """Return what a control tick commands.

        unsubscribed: destinations of commands without a subscriber. heard_ns: until then the executor has
        processed what came; None: until now.
        """
        if unsubscribed != self._unsubscribed:
            self._unsubscribed = unsubscribed
            self.playback.listen(sink for sink in self._contract.commands if sink.destination in unsubscribed)
        return self.playback.tick(now_ns, heard_ns)
