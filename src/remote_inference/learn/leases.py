# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Who holds which slots of a pool: all that were asked for or none, until a deadline that the holder renews.

Nothing here knows what a slot is. The owner of the slots connects and frees them, and notes it in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from remote_inference.base.errors import UserError

REMEMBERED = 256  # ended leases whose reason is kept for their holders


class LeaseError(UserError):
    """A lease is refused, or has ended; the message has the reason."""


class SlotState(Enum):
    """Who may use a slot."""

    FREE = "free"
    CONNECTING = "connecting"
    HELD = "held"
    FREEING = "freeing"


class SlotEvent(Enum):
    """What changes the state of a slot."""

    TAKEN = "taken"
    CONNECTED = "connected"
    DROPPED = "dropped"
    FREED = "freed"


DESCRIPTIONS: Mapping[SlotState | SlotEvent, str] = {
    SlotState.FREE: "nobody has it",
    SlotState.CONNECTING: "its environment is started and reset for a lease",
    SlotState.HELD: "connected, for the lease's holder alone",
    SlotState.FREEING: "its lease has ended; what it was doing is ended, too",
    SlotEvent.TAKEN: "a lease was asked for, and enough slots were free",
    SlotEvent.CONNECTED: "its environment has been reset",
    SlotEvent.DROPPED: "a slot of the lease could not be connected, or the lease was released or not renewed",
    SlotEvent.FREED: "nothing runs in it any more",
}

# A pair that is not listed is a mistake of the owner.
TRANSITIONS: Mapping[tuple[SlotState, SlotEvent], SlotState] = {
    (SlotState.FREE, SlotEvent.TAKEN): SlotState.CONNECTING,
    (SlotState.CONNECTING, SlotEvent.CONNECTED): SlotState.HELD,
    (SlotState.CONNECTING, SlotEvent.DROPPED): SlotState.FREEING,
    (SlotState.HELD, SlotEvent.DROPPED): SlotState.FREEING,
    (SlotState.FREEING, SlotEvent.FREED): SlotState.FREE,
}


@dataclass
class Lease:
    """Slots of one holder. Only who was given the id can use them.

    error: the first, why a lease was dropped; empty when it was released.
    """

    lease_id: str
    holder: str
    slots: tuple[int, ...]
    deadline_s: float | None = None  # by the clock of the table's owner; None until all slots are connected
    error: str = ""


class LeaseTable:
    """The leases of N slots. Every instant comes from the caller's clock. For one thread at a time."""

    def __init__(self, slots: int, lease_s: float, make_id: Callable[[], str]) -> None:
        """lease_s: how long a lease lasts from its last renewal. make_id: returns another id at each call."""
        self.lease_s = lease_s
        self._make_id = make_id
        self._states = [SlotState.FREE] * slots
        self._live: dict[str, Lease] = {}
        self._freeing: dict[str, set[int]] = {}  # slots that each dropped lease still has
        self._ended: dict[str, str] = {}  # why the last leases ended

    @property
    def states(self) -> tuple[SlotState, ...]:
        return tuple(self._states)

    def describe_load(self) -> str:
        """Return how many slots are free, and who has the others."""
        free = self._states.count(SlotState.FREE)
        parts = [f"{len(lease.slots)} held by {lease.holder}" for lease in self._live.values()]
        if freeing := self._states.count(SlotState.FREEING):
            parts.append(f"{freeing} being freed")
        return f"{free} of {len(self._states)} are free" + "".join(f", {part}" for part in parts)

    def reserve(self, holder: str, count: int, lease_id: str = "") -> Lease:
        """Reserve free slots for a lease that is connected next.

        lease_id: a secret that the holder has drawn; empty: `make_id` draws one. Raises LeaseError for an id
        that was used before, and, with the present load, for more slots than are free.
        """
        if lease_id in self._live or lease_id in self._ended:
            raise LeaseError("lease: found an id that was used before, expected another")
        free = [slot for slot, state in enumerate(self._states) if state is SlotState.FREE]
        if not 1 <= count <= len(self._states):
            raise LeaseError(f"lease: found {count} slots asked for, expected 1 to {len(self._states)}")
        if count > len(free):
            raise LeaseError(f"lease: found {count} slots asked for; {self.describe_load()}")
        lease = Lease(lease_id or self._make_id(), holder, tuple(free[:count]))
        self._live[lease.lease_id] = lease
        self._move(lease, SlotEvent.TAKEN)
        return lease

    def note_connected(self, lease_id: str, slot: int, now_s: float) -> bool:
        """Mark a slot as connected; return whether the lease is whole now, and begins. Raises LeaseError."""
        lease = self._find(lease_id)
        self._states[slot] = TRANSITIONS[self._states[slot], SlotEvent.CONNECTED]
        if any(self._states[other] is not SlotState.HELD for other in lease.slots):
            return False
        lease.deadline_s = now_s + self.lease_s
        return True

    def require(self, lease_id: str, slot: int) -> None:
        """Raise LeaseError unless a lease is in force and has a slot."""
        if slot not in (lease := self._find(lease_id)).slots:
            slots = ", ".join(map(str, lease.slots))
            raise LeaseError(f"lease: found slot {slot}, expected one of its own: {slots}")

    def renew(self, lease_id: str, now_s: float) -> None:
        """Extend a lease from now. Raises LeaseError when it has ended."""
        lease = self._find(lease_id)
        if lease.deadline_s is not None:
            lease.deadline_s = now_s + self.lease_s

    def drop(self, lease_id: str, error: str = "") -> Lease | None:
        """End a lease, whole or not; return it, or None when it has ended before: the first error stays."""
        lease = self._live.pop(lease_id, None)
        if lease is not None:
            lease.error = error
            self._freeing[lease_id] = set(lease.slots)
            self._ended[lease_id] = error
            if len(self._ended) > REMEMBERED:
                del self._ended[next(iter(self._ended))]
            self._move(lease, SlotEvent.DROPPED)
        return lease

    def expire(self, now_s: float) -> list[Lease]:
        """End the leases that were not renewed in time, and return them."""
        late = [one for one in self._live.values() if one.deadline_s is not None and one.deadline_s <= now_s]
        for lease in late:
            self.drop(lease.lease_id, f"{lease.holder} has not renewed it for {self.lease_s:g} s")
        return late

    def note_freed(self, lease_id: str, slot: int) -> bool:
        """Mark a slot of a dropped lease as free; return whether it was the last."""
        self._states[slot] = TRANSITIONS[self._states[slot], SlotEvent.FREED]
        left = self._freeing[lease_id]
        left.remove(slot)
        if not left:
            del self._freeing[lease_id]
        return not left

    def _find(self, lease_id: str) -> Lease:
        if (lease := self._live.get(lease_id)) is not None:
            return lease
        why = self._ended.get(lease_id)
        raise LeaseError(
            f"lease: it has ended: {why}" if why else "lease: found no such lease, or it was released"
        )

    def _move(self, lease: Lease, event: SlotEvent) -> None:
        for slot in lease.slots:
            self._states[slot] = TRANSITIONS[self._states[slot], event]
