# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the robot is commanded in each control tick: theory of operation.

A tick is one pure function of what was and what is known:

    decide(state, inputs, rules) -> state, tick

`MotionState` is all that ticks remember, `TickInputs` all that one may know, `MotionRules` what never
changes. Each is a frozen value. Nothing in a tick asks for anything, waits, or changes anything; `Playback`
holds the newest state and gives the inputs. So a tick is replayed from its inputs, bit for bit, and a
command that did not leave is undone by taking what the controllers had before it (`MotionState.before`).

A tick has four stages, each in a file of its own:

    estimate    where may each joint be, by its last command and by what is measured
    select      who commands: an ordered table of rules, of which the first that applies wins
    limit       positions, velocities, switches and poses within the contract
    emit        what leaves, when it is due, and what controllers then execute by themselves

Where a joint is
----------------
A step must begin where its joint is: what is one step from elsewhere is a jump. Two things say where that
is, and each may be wrong. The last command is, when drives are off, a controller was restarted, or another
node, a watchdog or a hand has moved the arm. A measurement is, when it is older than the last command, or
its sensor lies. What cannot be true of it is held back before it comes here (`safety/measurement_gate.py`).
Then:

    a joint                                     its next step begins              in the state
    ------------------------------------------  --------------------------------  ---------------------------
    follows                                     at its last command
    has no controller, or was stopped outside   where it is measured since        unknown
    may have been moved (resume, release, ...)  where it is measured since        is_forgotten
    is farther from its command than it may be  at its last command, by single    unknown, led_back
                                                steps to where it is measured
    has not moved since that was found          nowhere for a second, then as     stalled
                                                above, without what follows
    is not measured since, or too long ago      nowhere: fallback                 Estimate.measured is None

"Since" is the instant from which a measurement counts: no command, and no trajectory of before, has moved
the joint after it (`Estimate.since_ns`). `judge_following` says how far a joint may be from its command.

What goes on by itself
----------------------
Velocities and efforts go on in silence until they get zero, trajectories until their points are executed;
positions, poses and switches stay. Whatever is commanded lets so many stop commands pend (`Sent.stops`,
`Sent.holds`): they are sent once nothing else is, and counted by those who hear them (`emit.py`).
Trajectory controllers get the actions ahead with each command (`LookAhead`), so that a tick that fails to
come changes nothing: the next one skips what they have executed meanwhile.

Late ticks
----------
A command watchdog stops a robot whose control thread is silent, and its word of that may be on the way. So
the first tick that comes late leads nothing on: what was commanded goes on for a moment (`Timing.waits`).
After a longer silence the watchdog may have acted: no command says where the joints are
(`Timing.stuck_ns`).
"""
