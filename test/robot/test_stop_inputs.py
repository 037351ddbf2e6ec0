# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Stop inputs: latched, cleared only when good again, and no robot moves before each was heard."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from remote_inference.base.contract.operator_inputs import BOOL, StopInput
from remote_inference.robot.motion.command_mode import StopInputs
from remote_inference.robot.step_lock import StepLock
from support.builders import ns

BUTTON = StopInput(topic="estop", type=BOOL, stop_when=True)
ENABLED = StopInput(topic="enabled", type=BOOL, stop_when=False, silent_s=0.5)
BEAT = StopInput(topic="beat", type="std_msgs/msg/Header", stop_when="silent", silent_s=0.5)

PRESSED = "button: estop says true"


def heard(**sources: StopInput) -> StopInputs:
    """Return inputs of which each was heard at 0 and is good."""
    stops = StopInputs(sources)
    for name in sources:
        stops.receive(name, stops=False, now_ns=0)
    return stops


def test_a_stop_is_latched_and_named_when_the_input_is_good_again():
    stops = heard(button=BUTTON)
    assert stops.check(ns(1)) == ""
    stops.receive("button", stops=True, now_ns=ns(1))
    stops.receive("button", stops=False, now_ns=ns(1.01))
    assert stops.check(ns(2)) == PRESSED
    assert stops.latched == PRESSED


def test_each_stop_counts_also_while_another_is_latched():
    stops = heard(button=BUTTON, beat=BEAT)
    assert stops.heard == 0
    stops.receive("button", stops=True, now_ns=ns(0.1))
    stops.receive("beat", stops=False, now_ns=ns(1))  # after a silence
    assert stops.heard == 2
    stops.latch("too many interventions")
    assert stops.heard == 2, "one of the node's own is carried out with that which is latched"


def test_a_stop_between_two_looks_is_not_missed():
    stops = heard(button=BUTTON)
    stops.check(ns(1))
    stops.receive("button", stops=True, now_ns=ns(1.001))
    stops.receive("button", stops=False, now_ns=ns(1.002))
    assert stops.check(ns(1.03))


@pytest.mark.parametrize("source", [BEAT, ENABLED])
def test_a_silence_is_a_stop_when_it_is_longer_than_allowed(source: StopInput):
    stops = heard(source=source)
    assert stops.check(ns(0.5)) == ""
    assert stops.check(ns(0.51)).startswith("source: ")
    assert "silent, expected a message every 0.5 s" in stops.latched


def test_a_silence_that_ends_before_the_next_look_is_still_a_stop():
    stops = heard(beat=BEAT)
    stops.receive("beat", stops=False, now_ns=ns(3))
    assert "silent" in stops.check(ns(3))


def test_a_button_without_a_time_may_be_silent():
    assert heard(button=BUTTON).check(ns(3600)) == ""


def test_a_stop_cannot_be_cleared_while_the_input_stops():
    stops = heard(button=BUTTON)
    stops.receive("button", stops=True, now_ns=ns(1))
    assert stops.clear(PRESSED, ns(2)) == "stop input button: estop says true"
    assert stops.latched
    stops.receive("button", stops=False, now_ns=ns(3))
    assert stops.clear(PRESSED, ns(3)) == ""
    assert stops.latched == ""
    assert stops.check(ns(9)) == ""


def test_a_stop_cannot_be_cleared_while_another_input_is_silent():
    stops = heard(button=BUTTON, beat=BEAT)
    stops.receive("button", stops=True, now_ns=ns(0.1))
    stops.receive("button", stops=False, now_ns=ns(0.2))
    assert "beat is silent" in stops.clear(PRESSED, ns(2))
    assert stops.latched == PRESSED  # the first one stays named


def test_a_stop_that_nobody_has_carried_out_is_not_cleared():
    stops = heard(button=BUTTON)
    stops.receive("button", stops=True, now_ns=ns(1))
    stops.receive("button", stops=False, now_ns=ns(1))
    assert stops.clear("", ns(1)) == f"stopped meanwhile by {PRESSED}"
    assert stops.latched == PRESSED


def test_an_input_that_was_never_heard_is_an_obstacle_and_no_stop():
    stops = StopInputs({"button": BUTTON, "beat": BEAT})
    stops.receive("beat", stops=False, now_ns=ns(1))
    assert stops.check(ns(1.1)) == ""
    assert stops.find_obstacle(ns(1.1)) == (
        "nothing was ever heard of stop input button (estop, std_msgs/msg/Bool); expected its first message"
    )
    stops.receive("button", stops=False, now_ns=ns(1.2))
    assert stops.find_obstacle(ns(1.2)) == ""


def test_a_first_message_that_stops_is_a_stop():
    stops = StopInputs({"button": BUTTON})
    stops.receive("button", stops=True, now_ns=ns(1))
    assert "clear_stop" in stops.find_obstacle(ns(1))


def test_without_inputs_nothing_stands_in_the_way():
    assert StopInputs({}).find_obstacle(ns(1)) == ""


def test_of_two_stops_the_first_one_stays_named():
    stops = StopInputs({})
    stops.latch("guard")
    stops.latch("watchdog")
    assert stops.latched == "guard"


def test_a_check_waits_while_another_thread_has_the_lock():
    lock = StepLock()
    stops = StopInputs({}, lock)
    with ThreadPoolExecutor(1) as pool:
        with lock:
            looked = pool.submit(stops.check, 0)
            assert not wait([looked], timeout=0.1).done
        assert looked.result() == ""


def test_no_stop_is_lost_while_another_thread_clears():
    """Each stop that is heard is latched afterwards, or was cleared by a call that saw a good input."""
    stops = heard(button=BUTTON)
    ended = threading.Event()

    def clear() -> None:
        while not ended.is_set():
            stops.clear(stops.latched, ns(1))

    thread = threading.Thread(target=clear)
    thread.start()
    try:
        for _ in range(20_000):
            stops.receive("button", stops=True, now_ns=ns(1))
            assert stops.check(ns(1))  # nobody may clear it: the input still says stop
            stops.receive("button", stops=False, now_ns=ns(1))
    finally:
        ended.set()
        thread.join(10.0)
