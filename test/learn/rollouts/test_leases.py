# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A lease is whole or nothing, ends for good, and leaks no slot, whatever order things happen in."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from remote_inference.learn.leases import (
    DESCRIPTIONS,
    REMEMBERED,
    TRANSITIONS,
    Lease,
    LeaseError,
    LeaseTable,
    SlotEvent,
    SlotState,
)

SLOTS, LEASE_S = 5, 10.0


def make_table(slots: int = SLOTS) -> LeaseTable:
    ids = count()
    return LeaseTable(slots, LEASE_S, lambda: f"lease {next(ids)}")


def connect(table: LeaseTable, lease: Lease, now_s: float = 0.0) -> bool:
    return [table.note_connected(lease.lease_id, slot, now_s) for slot in lease.slots][-1]


def free(table: LeaseTable, lease: Lease) -> bool:
    return [table.note_freed(lease.lease_id, slot) for slot in lease.slots][-1]


def test_a_lease_is_whole_when_its_last_slot_is_connected() -> None:
    table = make_table()
    lease = table.reserve("trainer", 3)
    assert lease.slots == (0, 1, 2)
    assert [table.note_connected(lease.lease_id, slot, 5.0) for slot in (2, 0, 1)] == [False, False, True]
    assert lease.deadline_s == 5.0 + LEASE_S
    assert table.states == (SlotState.HELD,) * 3 + (SlotState.FREE,) * 2


def test_more_than_is_free_is_refused_with_the_load() -> None:
    table = make_table(8)
    connect(table, table.reserve("trainer", 5))
    dropped = table.reserve("other", 1)
    table.drop(dropped.lease_id)
    message = r"found 3 slots asked for; 2 of 8 are free, 5 held by trainer, 1 being freed"
    with pytest.raises(LeaseError, match=message):
        table.reserve("third", 3)
    assert table.states.count(SlotState.FREE) == 2, "a refusal holds nothing"


@pytest.mark.parametrize("asked", [0, -1, SLOTS + 1])
def test_a_number_of_slots_that_no_load_could_grant_is_refused(asked: int) -> None:
    with pytest.raises(LeaseError, match=f"found {asked} slots asked for, expected 1 to {SLOTS}"):
        make_table().reserve("trainer", asked)


def test_a_failed_slot_drops_the_lease_and_the_first_error_stays() -> None:
    table = make_table()
    lease = table.reserve("trainer", 3)
    table.note_connected(lease.lease_id, 0, 0.0)
    assert table.drop(lease.lease_id, "no roof") is lease
    assert table.drop(lease.lease_id, "no floor") is None
    assert lease.error == "no roof"
    with pytest.raises(LeaseError, match="it has ended: no roof"):
        table.note_connected(lease.lease_id, 1, 0.0)
    assert free(table, lease)
    assert set(table.states) == {SlotState.FREE}
    connect(table, table.reserve("trainer", SLOTS))


def test_a_slot_that_is_still_being_freed_is_not_taken() -> None:
    table = make_table()
    lease = table.reserve("trainer", SLOTS)
    table.drop(lease.lease_id)
    assert not table.note_freed(lease.lease_id, 3)
    assert table.reserve("other", 1).slots == (3,)
    with pytest.raises(LeaseError, match="found 1 slots asked for; 0 of 5 are free"):
        table.reserve("third", 1)


def test_who_does_not_renew_loses_the_lease_and_learns_why() -> None:
    table = make_table()
    lost, kept = table.reserve("vanished", 2), table.reserve("trainer", 2)
    connect(table, lost, 0.0)
    connect(table, kept, 0.0)
    table.renew(kept.lease_id, 6.0)
    assert table.expire(9.9) == []
    assert table.expire(10.0) == [lost]
    for call in (lambda: table.renew(lost.lease_id, 11.0), lambda: table.require(lost.lease_id, 0)):
        with pytest.raises(LeaseError, match="it has ended: vanished has not renewed it for 10 s"):
            call()
    table.require(kept.lease_id, 2)
    assert table.expire(15.9) == []
    assert table.expire(16.0) == [kept]


def test_time_does_not_run_while_a_lease_is_connected() -> None:
    table = make_table()
    lease = table.reserve("trainer", 2)
    table.renew(lease.lease_id, 0.0)
    assert table.expire(1e9) == []
    connect(table, lease, 1e9)
    assert table.expire(1e9) == []


def test_another_s_slot_and_an_unknown_lease_are_refused() -> None:
    table = make_table()
    lease, other = table.reserve("trainer", 2), table.reserve("other", 1)
    with pytest.raises(LeaseError, match="found slot 2, expected one of its own: 0, 1"):
        table.require(lease.lease_id, other.slots[0])
    with pytest.raises(LeaseError, match="found no such lease"):
        table.require("guessed", 0)


def test_what_ended_leases_leave_behind_is_bounded() -> None:
    table = make_table()
    for _ in range(3 * REMEMBERED):
        lease = table.reserve("trainer", 1)
        table.drop(lease.lease_id, "broken")
        free(table, lease)
    assert len(table._ended) == REMEMBERED
    assert not table._freeing


def test_every_state_and_event_is_described_and_reached() -> None:
    assert set(DESCRIPTIONS) == {*SlotState, *SlotEvent}
    assert {event for _, event in TRANSITIONS} == set(SlotEvent)
    assert set(TRANSITIONS.values()) == set(SlotState)


class Leases(RuleBasedStateMachine):
    """Holders and slots do what they want, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.table = make_table()
        self.live: dict[str, tuple[Lease, set[int]]] = {}  # with the slots that are not connected yet
        self.freeing: list[tuple[str, int]] = []
        self.now_s = 0.0

    def ended(self, lease: Lease) -> None:
        del self.live[lease.lease_id]
        self.freeing += [(lease.lease_id, slot) for slot in lease.slots]

    @rule(number=st.integers(0, SLOTS + 1))
    def reserve(self, number: int) -> None:
        free = self.table.states.count(SlotState.FREE)
        try:
            lease = self.table.reserve("holder", number)
        except LeaseError:
            assert not 1 <= number <= free
        else:
            assert len(lease.slots) == number <= free
            self.live[lease.lease_id] = (lease, set(lease.slots))

    @precondition(lambda self: any(left for _, left in self.live.values()))
    @rule(data=st.data())
    def connect(self, data: st.DataObject) -> None:
        pending = [(lease, slot) for lease, left in self.live.values() for slot in sorted(left)]
        lease, slot = data.draw(st.sampled_from(pending))
        left = self.live[lease.lease_id][1]
        left.remove(slot)
        assert self.table.note_connected(lease.lease_id, slot, self.now_s) is not bool(left)

    @precondition(lambda self: self.live)
    @rule(data=st.data(), error=st.sampled_from(["", "no roof"]))
    def drop(self, data: st.DataObject, error: str) -> None:
        lease, _ = self.live[data.draw(st.sampled_from(sorted(self.live)))]
        assert self.table.drop(lease.lease_id, error) is lease
        self.ended(lease)

    @precondition(lambda self: self.freeing)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        lease_id, slot = self.freeing.pop(data.draw(st.integers(0, len(self.freeing) - 1)))
        last = not any(other == lease_id for other, _ in self.freeing)
        assert self.table.note_freed(lease_id, slot) is last

    @rule(passed_s=st.floats(0, 2 * LEASE_S))
    def wait(self, passed_s: float) -> None:
        self.now_s += passed_s
        due = {key for key, (one, _) in self.live.items() if (one.deadline_s or 1e99) <= self.now_s}
        expired = self.table.expire(self.now_s)
        assert {lease.lease_id for lease in expired} == due
        for lease in expired:
            self.ended(lease)

    @invariant()
    def no_slot_is_lost_or_had_twice(self) -> None:
        held = [slot for lease, _ in self.live.values() for slot in lease.slots]
        had = held + [slot for _, slot in self.freeing]
        assert len(had) == len(set(had))
        assert self.table.states.count(SlotState.FREE) == SLOTS - len(had)

    def teardown(self) -> None:
        for lease, _ in list(self.live.values()):
            self.table.drop(lease.lease_id)
            self.ended(lease)
        for lease_id, slot in self.freeing:
            self.table.note_freed(lease_id, slot)
        assert set(self.table.states) == {SlotState.FREE}


TestLeasesInAnyOrder = Leases.TestCase


@given(st.permutations(range(SLOTS)), st.integers(0, SLOTS - 1))
def test_wherever_connecting_fails_nothing_stays_held(order: list[int], failing: int) -> None:
    table = make_table()
    lease = table.reserve("trainer", SLOTS)
    for slot in order[:failing]:
        assert not table.note_connected(lease.lease_id, slot, 0.0)
    table.drop(lease.lease_id, "broken")
    free(table, lease)
    assert connect(table, table.reserve("trainer", SLOTS))
