# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The receiving end: reads frames, prepares an update beside the served weights, exchanges it on request.

`handle` belongs to one thread, which may be slow; `apply` and `rollback` to the thread that owns the weights,
which never waits for the other but for the handing over of a reference. Whatever is wrong with an update, it
is refused whole: the served weights stay, what was prepared is freed, and the trainer gets the reason.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from remote_inference.learn.weights import frames
from remote_inference.learn.weights.changes import Change, Compression, Stager, make_compression, make_stager
from remote_inference.learn.weights.frames import Applied, Buffer, Frame, Header, Kind, Link, Refused, Welcome
from remote_inference.learn.weights.reasons import Reason, WeightsError
from remote_inference.learn.weights.served import ServedTensors
from remote_inference.learn.weights.tensors import (
    Tensors,
    check_values,
    describe,
    show_digest,
    size_of,
    state_digest,
    table_digest,
)

_MAX_ANSWERS = 64  # that nobody has fetched; older ones are dropped


class ReceiverState(Enum):
    """What a receiver waits for."""

    IDLE = "a trainer"
    READY = "an update"
    STAGING = "parts of an update"
    STAGED = "the update to be applied"


# The frames that each state accepts; others are refused. A hello begins anew, whatever is staged.
ACCEPTED: Mapping[ReceiverState, frozenset[Kind]] = {
    ReceiverState.IDLE: frozenset({Kind.HELLO}),
    ReceiverState.READY: frozenset({Kind.HELLO, Kind.UPDATE, Kind.RELEASE}),
    ReceiverState.STAGING: frozenset({Kind.HELLO, Kind.PART, Kind.RELEASE}),
    ReceiverState.STAGED: frozenset({Kind.HELLO, Kind.RELEASE}),
}


@dataclass(frozen=True)
class ReceiverLimits:
    """What a receiver accepts. claim_s, stall_s: silence [s] that ends a trainer's claim, or its update."""

    allow_nonfinite: bool = False
    claim_s: float = 60.0
    stall_s: float = 30.0


@dataclass(frozen=True)
class Peer:
    """A trainer by one of its links: a new one may be there before the old one's end shows.

    link: None where frames come without links.
    """

    sender: bytes
    link: Link | None


@dataclass
class Staging:
    """An update whose payload comes in."""

    header: Header
    stager: Stager
    compression: Compression
    parts: int = 0


@dataclass(frozen=True)
class Prepared:
    """An update that is whole and checked. peer: from whom."""

    peer: Peer
    header: Header
    changes: Sequence[Change]


class WeightReceiver:
    """Updates the weights of one policy. tensors: that are served; they are changed in place.

    Raises WeightsError for tensors that cannot be changed so. clock: seconds, monotonic. check: called by the
    thread that owns the weights when new ones are in place; returns why they cannot be served, and they are
    taken back. report: called with the outcome of each update, on either thread.
    """

    def __init__(
        self,
        tensors: Tensors,
        version: int = 0,
        limits: ReceiverLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        check: Callable[[], str] = lambda: "",
        report: Callable[[Applied | Refused], None] = lambda _: None,
    ) -> None:
        self.table = describe(tensors)
        self.received_bytes = 0
        self.refusals: Counter[Reason] = Counter()
        self._report = report
        self._answers: deque[tuple[Link | None, bytes]] = deque(maxlen=_MAX_ANSWERS)
        self._tensors = ServedTensors(tensors, self.table)
        self._limits = limits or ReceiverLimits()
        self._clock, self._check = clock, check
        self._table_digest = table_digest(self.table)
        self._size = size_of(self.table)
        self._served = version, self._tensors.digest()
        self._highest = version  # ever served: a number is given once, also after a rollback
        self._lock = threading.Lock()  # of what both threads use: _served, _highest, _prepared, _inverse
        self._answers_lock = threading.Lock()  # of _answers and refusals
        self._prepared: Prepared | None = None
        # Version and digest before the last update, and the changes that restore them.
        self._inverse: tuple[tuple[int, int], Sequence[Change]] | None = None
        self._staging: Staging | None = None
        self._trainer: Peer | None = None
        self._trainer_seen_s = 0.0
        self._at_work = 0  # version of the last update that began
        self._skips_parts = False  # of an update that was refused: they were on their way

    @property
    def version(self) -> int:
        return self._served[0]

    @property
    def behind(self) -> int:
        """Versions between that which is served and the newest that the trainer has begun to send."""
        return max(0, self._at_work - self.version)

    @property
    def digest(self) -> int:
        """The digest of the served weights, see `tensors.state_digest`."""
        return self._served[1]

    @property
    def state(self) -> ReceiverState:
        if self._prepared is not None:
            return ReceiverState.STAGED
        if self._staging is not None:
            return ReceiverState.STAGING
        return ReceiverState.READY if self._trainer else ReceiverState.IDLE

    def take_answers(self) -> list[tuple[Link | None, bytes]]:
        """Return the frames to be sent to trainers, each once and with its link. For any thread."""
        with self._answers_lock:
            taken = list(self._answers)
            self._answers.clear()
        return taken

    # -- the thread of the frames ----------------------------------------------------------------------------

    def handle(self, data: Buffer, link: Link | None = None) -> None:
        """Handle a frame, valid or not. Of a damaged one the link decides whose it is."""
        self.received_bytes += len(data)
        peer = self._find_peer(link, frames.sender_of(data))
        try:
            frame = frames.read_frame(data)
            peer = Peer(frame.sender, link)
            self._handle(peer, frame)
        except WeightsError as error:
            self._refuse(peer, error)
        except MemoryError:
            text = f"found no memory to prepare it beside a model of {self._size} bytes"
            self._refuse(peer, WeightsError(Reason.MEMORY, text))

    def fail(self, link: Link, error: Exception) -> None:
        """Refuse what has come by a link: `handle` has raised an unexpected error."""
        text = f"the server failed: {type(error).__name__}: {' '.join(str(error).split())}"
        self._refuse(self._find_peer(link), WeightsError(Reason.FAILED, text))

    def check_time(self) -> None:
        """Give up an update whose trainer sends nothing. To be called now and then."""
        if self._staging and self._trainer and self._clock() - self._trainer_seen_s > self._limits.stall_s:
            text = f"found no part for {self._limits.stall_s:g} s, expected the next one"
            self._refuse(self._trainer, WeightsError(Reason.STALLED, text))

    def forget(self, link: Link) -> None:
        """Free the claim of this link's trainer, and what had not come whole, unless it has a newer link."""
        if self._trainer and self._trainer.link is link:
            self._trainer, self._staging = None, None

    def _find_peer(self, link: Link | None, sender: bytes = b"") -> Peer:
        """Return the trainer of a link. sender: by the frame, unless it is the present trainer's link."""
        return self._trainer if self._trainer and self._trainer.link is link else Peer(sender, link)

    def _handle(self, peer: Peer, frame: Frame) -> None:
        self._check_trainer(peer, frame.kind)
        if frame.kind is Kind.PART and self._skips_parts:
            return
        if frame.kind not in ACCEPTED[self.state]:
            text = f"found {frame.kind.name.lower()}, while the server waits for {self.state.value}"
            raise WeightsError(Reason.ORDER, text)
        match frame.kind:
            case Kind.HELLO:
                self._greet(peer)
            case Kind.UPDATE:
                self._on_update(frame)
            case Kind.PART:
                self._on_part(frame)
            case Kind.RELEASE:
                self._trainer, self._staging = None, None

    def _check_trainer(self, peer: Peer, kind: Kind) -> None:
        """Raise WeightsError for a frame of any but the trainer that has claimed this server."""
        now_s, trainer = self._clock(), self._trainer
        has_come_back = trainer is not None and trainer.sender == peer.sender
        is_vacant = trainer is None or now_s - self._trainer_seen_s > self._limits.claim_s
        if peer != trainer and not (kind is Kind.HELLO and (is_vacant or has_come_back)):
            expected = f"{trainer.sender.hex()}, which updates this server" if trainer else "a hello first"
            by = " by another link" if has_come_back else ""
            raise WeightsError(Reason.CLAIMED, f"found trainer {peer.sender.hex()}, expected {expected}{by}")
        self._trainer_seen_s = now_s

    def _greet(self, peer: Peer) -> None:
        with self._lock:
            prepared, self._prepared = self._prepared, None
            (version, digest), highest = self._served, self._highest
        found = f"another trainer, {peer.sender.hex()}, has taken its place"
        if prepared and prepared.peer.sender != peer.sender:
            self._refuse_prepared(prepared, Reason.CLAIMED, found)
        if self._staging and self._trainer and self._trainer.sender != peer.sender:
            self._refuse(self._trainer, WeightsError(Reason.CLAIMED, found))
        self._trainer, self._staging, self._skips_parts, self._at_work = peer, None, False, 0
        self._answer(peer, Welcome(version, digest, self.table, highest))

    def _on_update(self, frame: Frame) -> None:
        header = frames.read_header(frame)
        self._skips_parts, self._at_work = False, header.version
        frames.check_header(header, self._table_digest, self._served, self._highest)
        compression = make_compression(header.compression)
        stager = make_stager(header, self.table)
        with self._lock:  # the inverse gives way where both would need more than the model does
            kept = sum(change.memory for change in self._inverse[1]) if self._inverse else 0
            if kept + stager.memory > self._size:
                self._inverse = None
        self._staging = Staging(header, stager, compression)
        self._prepare_when_whole(self._staging)

    def _on_part(self, frame: Frame) -> None:
        staging = self._staging
        assert staging is not None  # ACCEPTED
        version, index, data = frames.read_part(frame.body)
        if (version, index) != (staging.header.version, staging.parts):
            found, expected = f"{index} of {version}", f"{staging.parts} of {staging.header.version}"
            raise WeightsError(Reason.ORDER, f"found part {found}, expected {expected}")
        size = staging.stager.next_size()
        staging.stager.add(staging.compression.decompress(bytes(data), size))
        staging.parts += 1
        self._prepare_when_whole(staging)

    def _prepare_when_whole(self, staging: Staging) -> None:
        if staging.stager.next_size():
            return
        header, changes = staging.header, staging.stager.finish()
        for change in changes:
            check_values(change.bits, change.spec.dtype, change.spec.name, self._limits.allow_nonfinite)
        if header.base_digest is None:
            digest = state_digest((change.spec, change.bits) for change in changes)
        else:
            digest = self._tensors.digest_after(changes, header.base_digest)
        if digest != header.digest:
            found, expected = show_digest(digest), show_digest(header.digest)
            raise WeightsError(Reason.DIGEST, f"found {found} as digest of the result, expected {expected}")
        self._tensors.require_equal_where_tied(changes)
        staged = self._tensors.stage(changes)
        assert self._trainer is not None  # whose update it is
        with self._lock:
            self._prepared = Prepared(self._trainer, header, staged)
        self._staging = None

    def _refuse(self, peer: Peer, error: WeightsError) -> None:
        """Send a trainer the reason; free what this server's own trainer had sent."""
        version, text = 0, str(error)
        if peer == self._trainer:
            self._staging, self._skips_parts, version = None, True, self._at_work
            text = f"update {version}: {error}" if version else text
        self._answer_refused(peer, Refused(version, error.reason, text))

    def _refuse_prepared(self, prepared: Prepared, reason: Reason, text: str) -> None:
        version = prepared.header.version
        self._answer_refused(prepared.peer, Refused(version, reason, f"update {version}: {text}"))

    def _answer_refused(self, peer: Peer, refused: Refused) -> None:
        with self._answers_lock:
            self.refusals[refused.reason] += 1
        self._answer(peer, refused)
        self._report(refused)

    def _answer(self, peer: Peer, message: Welcome | Applied | Refused) -> None:
        frame = frames.pack_message(peer.sender, message)
        with self._answers_lock:
            self._answers.append((peer.link, frame))

    # -- the thread that owns the weights --------------------------------------------------------------------

    def apply(self) -> int:
        """Serve the update that is prepared, if one is. Return the version that is served."""
        with self._lock:
            prepared, self._prepared = self._prepared, None
            if prepared is None:
                return self.version
            header = prepared.header
            if header.base not in {None, self._served} or header.version <= self._highest:
                text = f"the server has gone to {self.version} meanwhile"
                self._refuse_prepared(prepared, Reason.BASE, text)
                return self.version
            begin_s = self._clock()
            try:
                self._tensors.exchange(prepared.changes)
            except MemoryError:
                text = f"found no memory to exchange it; {self.version} is served on"
                self._refuse_prepared(prepared, Reason.MEMORY, text)
                return self.version
            seconds = self._clock() - begin_s
            try:
                problem = self._check()
            except BaseException:
                self._tensors.exchange(prepared.changes[::-1])
                raise
            if problem:
                self._tensors.exchange(prepared.changes[::-1])
                self._refuse_prepared(prepared, Reason.PROBE, problem)
                return self.version
            self._inverse = self._served, prepared.changes[::-1]
            self._served, self._highest = (header.version, header.digest), header.version
        applied = Applied(header.version, header.digest, seconds)
        self._answer(prepared.peer, applied)
        self._report(applied)
        return header.version

    def rollback(self) -> int:
        """Serve the version before the last update again, and return it. A prepared update is refused.

        Raises WeightsError when there is no way back: nothing was applied, or one step back was taken. And
        when there is no memory for it; the way back is kept then.
        """
        with self._lock:
            if self._inverse is None:
                raise WeightsError(Reason.ORDER, f"rollback: version {self.version} has none before it here")
            before, changes = self._inverse
            try:
                self._tensors.exchange(changes)
            except MemoryError as error:
                text = f"rollback: found no memory to exchange the weights; {self.version} is served on"
                raise WeightsError(Reason.MEMORY, text) from error
            self._served, self._inverse = before, None
            prepared, self._prepared = self._prepared, None
            if prepared:
                text = f"the server has gone back to {self.version} meanwhile"
                self._refuse_prepared(prepared, Reason.BASE, text)
            return self.version
