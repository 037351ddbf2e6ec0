# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A call that is repeated, late or out of order is carried out once, and never on another's slots."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from remote_inference.learn.environment import EnvError
from remote_inference.learn.environments import process_environment
from remote_inference.learn.environments.process_environment import MAX_FRAME_BYTES, Touch
from remote_inference.learn.environments.slot_pool import LeaseDesk
from remote_inference.learn.leases import REMEMBERED, LeaseError, SlotState
from remote_inference.server.frameworks.openpi import unpack_map
from support.environments.drawer import STATE
from support.environments.drawer_pool import Drawers
from support.waiting import wait_until

WAIT_S = 60.0
MINE, OTHER = "m" * 32, "o" * 32
RESET = Touch("reset", seed=20, task="open", wanted=[STATE])
PULL = Touch("execute", actions=np.array([0.0, 0.3, 0.0, 0.4]))


class Desk:
    """A desk with drawers behind it."""

    def __init__(self, slots: int = 2, **options: object) -> None:
        self.pool = Drawers(slots, **options).pool  # type: ignore[arg-type]
        self.desk = LeaseDesk(self.pool)

    def lease(self, lease_id: str = MINE, count: int = 2) -> tuple[int, ...]:
        return self.desk.lease(lease_id, "trainer", count).result(WAIT_S).slots

    def touch(self, number: int, touch: Touch, slot: int = 0, lease_id: str = MINE) -> dict[str, object]:
        answer = self.desk.touch(lease_id, slot, number, touch).result(WAIT_S)
        return unpack_map(answer, MAX_FRAME_BYTES)


@pytest.fixture
def made() -> Iterator[Desk]:
    desk = Desk()
    yield desk
    desk.pool.close()


def test_a_lease_asked_for_again_is_the_same_one(made: Desk) -> None:
    assert made.lease() == made.lease() == (0, 1)
    assert made.pool.describe_load() == "0 of 2 are free, 2 held by trainer"


def test_a_refusal_stays_one_when_slots_have_become_free(made: Desk) -> None:
    """Else a late duplicate of a refused request would lease slots to nobody."""
    made.lease(OTHER)
    for _ in range(2):
        with pytest.raises(LeaseError, match="found 1 slots asked for; 0 of 2 are free, 2 held by trainer"):
            made.lease(count=1)
        made.desk.release(OTHER).result(WAIT_S)
    assert set(made.pool.states) == {SlotState.FREE}


def test_a_release_that_overtakes_its_lease_keeps_it_from_beginning(made: Desk) -> None:
    made.desk.release(MINE).result(WAIT_S)
    with pytest.raises(LeaseError, match="it was released before it was asked for"):
        made.lease()
    assert set(made.pool.states) == {SlotState.FREE}


def test_an_id_that_can_be_guessed_or_was_used_is_refused(made: Desk) -> None:
    with pytest.raises(LeaseError, match="found an id of 5 characters, expected 32 or more"):
        made.lease("trial")
    made.lease()
    made.desk._leases.clear()  # forgotten, as after many others
    with pytest.raises(LeaseError, match="found an id that was used before"):
        made.lease()


def test_what_is_remembered_of_leases_is_bounded(made: Desk) -> None:
    for number in range(2 * REMEMBERED):
        made.desk.release(f"{number:032}")
    assert len(made.desk._leases) == REMEMBERED


def test_a_touch_asked_for_again_is_carried_out_once(made: Desk) -> None:
    made.lease()
    made.touch(1, RESET)
    first, again = (made.touch(2, PULL) for _ in range(2))
    assert repr(first) == repr(again)
    (_, last) = again["steps"]  # type: ignore[misc]
    assert last["values"][STATE].tolist() == pytest.approx([0.4, 0.0])
    (step,) = made.touch(3, Touch("execute", actions=np.array([0.0, 0.5])))["steps"]  # type: ignore[misc]
    assert step["time_s"] == 0.3, "the repeated rows were not executed again"


def test_a_touch_that_comes_after_a_later_one_is_not_carried_out(made: Desk) -> None:
    made.lease()
    made.touch(1, RESET)
    made.touch(3, PULL)
    with pytest.raises(LeaseError, match="slot 0: found touch 2, expected 3 or later"):
        made.touch(2, RESET)
    assert made.touch(1, RESET, slot=1), "each slot counts its own"


def test_numbers_begin_anew_with_each_lease_and_an_ended_lease_touches_nothing(made: Desk) -> None:
    made.lease()
    made.touch(7, RESET)
    made.desk.release(MINE).result(WAIT_S)
    made.lease(OTHER)
    assert made.touch(1, RESET, lease_id=OTHER)
    with pytest.raises(LeaseError, match="found no such lease, or it was released"):
        made.touch(8, RESET)


def test_metrics_and_a_picture_are_shown(made: Desk) -> None:
    made.lease()
    made.touch(1, RESET)
    assert made.touch(2, Touch("metrics"))["success"] is False
    assert made.touch(3, Touch("render"))["picture"].shape == (4, 6, 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("touch", "said"),
    [
        (Touch("kick"), "touch: found 'kick', expected one of reset, execute, metrics, render"),
        (Touch("execute", actions=np.zeros(3)), "drawer: found 3 actions, expected rows of 2"),
        (Touch("reset", task="fly"), "found task 'fly'"),
        (Touch("execute", actions=np.array([0.0, np.nan])), "expected finite values"),
    ],
)
def test_a_touch_that_cannot_be_carried_out_says_why(made: Desk, touch: Touch, said: str) -> None:
    made.lease()
    with pytest.raises(EnvError, match=said):
        made.touch(1, touch)


def test_an_answer_that_is_too_large_for_a_frame_is_an_error(
    made: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    made.lease()
    monkeypatch.setattr(process_environment, "MAX_FRAME_BYTES", 50)
    with pytest.raises(EnvError, match="expected 50 at most: execute fewer actions at a time"):
        made.touch(1, Touch("render"))


def test_a_lease_that_nobody_renews_ends_and_its_id_is_of_no_more_use() -> None:
    made = Desk(lease_s=0.05)
    made.lease()
    wait_until(made.pool.expire, "the lease ends")
    with pytest.raises(LeaseError, match=r"trainer has not renewed it for 0\.05 s"):
        made.pool.renew(MINE)
    made.pool.close()
