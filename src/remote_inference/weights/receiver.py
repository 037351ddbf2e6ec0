# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The receiving end: takes frames, prepares an update beside the served weights, exchanges it when told to.

`handle` belongs to one thread, which may be slow; `apply` and `rollback` to the thread that owns the weights,
which never waits for the other but for the handing over of a reference. Whatever is wrong with an update, it
is refused whole: the served weights stay, what was prepared is freed, and the trainer is told why.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from remote_inference.weights.answers import Answer, Answers, Peer
from remote_inference.weights.changes.changes import make_stager
from remote_inference.weights.changes.compression import make_compression
from remote_inference.weights.changes.held_updates import Inverse, Prepared, Staging
from remote_inference.weights.changes.served import ServedTensors
from remote_inference.weights.frames import Buffer, Frame, Kind, read_frame, read_part, sender_of
from remote_inference.weights.header import Applied, Refused, Welcome, check_header, read_header
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.digest import MODULUS, entries_digest, show_digest
from remote_inference.weights.tensors.dtypes import check_values
from remote_inference.weights.tensors.tensors import Tensors, describe, size_of, table_digest
from remote_inference.weights.transports.transport import Link
from remote_inference.weights.turns import TAKES, ReceiverLimits, Turn


class WeightReceiver:
    """Keeps the weights of one policy up to date. tensors: that are served; they are changed in place.

    Raises WeightsError for tensors that cannot be changed so. clock: seconds, monotonic. check: called by the
    thread that owns the weights when new ones are in place; returns why they cannot be served, and they are
    taken back. tell: takes what each update has come to, on either thread.
    """

    def __init__(
        self,
        tensors: Tensors,
        version: int = 0,
        limits: ReceiverLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        *,
        check: Callable[[], str] = lambda: "",
        tell: Callable[[Applied | Refused], None] = lambda _: None,
    ) -> None:
        self.table = describe(tensors)
        self.received_bytes = 0
        self._answers = Answers(tell)
        self.refusals = self._answers.refusals
        self._state = ServedTensors(tensors, self.table)
        self._limits = limits or ReceiverLimits()
        self._clock, self._check = clock, check
        self._table_digest = table_digest(self.table)
        self._size = size_of(self.table)
        self._served = version, self._state.digest()
        self._highest = version  # ever served: a number is given once, also after a rollback
        self._lock = threading.Lock()  # of what both threads touch: _served, _highest, _prepared, _inverse
        self._prepared: Prepared | None = None
        self._inverse: Inverse | None = None
        self._staging: Staging | None = None
        self._trainer: Peer | None = None
        self._trainer_heard_s = 0.0
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
        """Of the served weights, see `digest.state_digest`."""
        return self._served[1]

    @property
    def turn(self) -> Turn:
        if self._prepared is not None:
            return Turn.STAGED
        if self._staging is not None:
            return Turn.STAGING
        return Turn.READY if self._trainer else Turn.IDLE

    @property
    def can_roll_back(self) -> bool:
        return self._inverse is not None

    def take_answers(self) -> list[Answer]:
        """Return what is to be sent to trainers, each once."""
        return self._answers.take()

    def take_replies(self) -> list[bytes]:
        """Return the frames of `take_answers`, where there is one link alone."""
        return [answer.frame for answer in self.take_answers()]

    # -- the thread of the frames ----------------------------------------------------------------------------

    def handle(self, data: Buffer, link: Link | None = None) -> None:
        """Take a frame that has come by a link, whatever its bytes are.

        Bytes that are no whole frame do not say reliably from whom they are: their link says it.
        """
        self.received_bytes += len(data)
        peer = self._find_peer(link, sender_of(data))
        try:
            frame = read_frame(data)
            peer = Peer(frame.sender, link)
            self._take(peer, frame)
        except WeightsError as error:
            self._refuse(peer, error)
        except MemoryError:
            text = f"found no memory to prepare it beside a model of {self._size} bytes"
            self._refuse(peer, WeightsError(Reason.MEMORY, text))

    def fail(self, link: Link, error: Exception) -> None:
        """Refuse what has come by a link: `handle` has raised what nobody foresaw."""
        text = f"the server failed: {type(error).__name__}: {' '.join(str(error).split())}"
        self._refuse(self._find_peer(link), WeightsError(Reason.FAILED, text))

    def check_time(self) -> None:
        """Give up an update whose trainer has fallen silent. To be called now and then."""
        staging = self._staging
        if staging and self._trainer and self._clock() - staging.heard_s > self._limits.stall_s:
            text = f"found no part for {self._limits.stall_s:g} s, expected the next one"
            self._refuse(self._trainer, WeightsError(Reason.STALLED, text))

    def forget(self, link: Link) -> None:
        """Let another trainer take the place of the one that spoke by this link: it has ended.

        What had not come whole is freed. A trainer that has greeted by another link since stays.
        """
        if self._trainer and self._trainer.link is link:
            self._trainer, self._staging = None, None

    def _find_peer(self, link: Link | None, sender: bytes = b"") -> Peer:
        """Return who speaks by a link. sender: who says so, if the link is not that of this server's own."""
        return self._trainer if self._trainer and self._trainer.link is link else Peer(sender, link)

    def _take(self, peer: Peer, frame: Frame) -> None:
        self._check_trainer(peer, frame.kind)
        if frame.kind is Kind.PART and self._skips_parts:
            return
        if frame.kind not in TAKES[self.turn]:
            text = f"found {frame.kind.name.lower()}, while the server waits for {self.turn.value}"
            raise WeightsError(Reason.ORDER, text)
        if frame.kind is Kind.HELLO:
            self._greet(peer)
        else:
            _HANDLERS[frame.kind](self, frame)

    def _check_trainer(self, peer: Peer, kind: Kind) -> None:
        """Raise WeightsError for a frame of anybody but the trainer that this server listens to."""
        now_s, trainer = self._clock(), self._trainer
        has_come_back = trainer is not None and trainer.sender == peer.sender
        is_vacant = trainer is None or now_s - self._trainer_heard_s > self._limits.claim_s
        if peer != trainer and not (kind is Kind.HELLO and (is_vacant or has_come_back)):
            expected = f"{trainer.sender.hex()}, which updates this server" if trainer else "a hello first"
            by = " by another link" if has_come_back else ""
            raise WeightsError(Reason.CLAIMED, f"found trainer {peer.sender.hex()}, expected {expected}{by}")
        self._trainer_heard_s = now_s

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
        self._answers.welcome(peer, Welcome(version, digest, self.table, highest))

    def _on_release(self, _: Frame) -> None:
        self._trainer, self._staging = None, None

    def _on_update(self, frame: Frame) -> None:
        header = read_header(frame)
        self._skips_parts, self._at_work = False, header.version
        check_header(header, self._table_digest, self._served, self._highest)
        compression = make_compression(header.compression)
        stager = make_stager(header, self.table)
        self._make_room(stager.memory)
        self._staging = Staging(header, stager, compression, self._clock())
        self._prepare_when_whole(self._staging)

    def _on_part(self, frame: Frame) -> None:
        staging = self._staging
        assert staging is not None  # TAKES
        part, version = read_part(frame.body), staging.header.version
        if (part.version, part.index) != (version, staging.parts):
            found, expected = f"{part.index} of {part.version}", f"{staging.parts} of {version}"
            raise WeightsError(Reason.ORDER, f"found part {found}, expected {expected}")
        size = staging.stager.next_size()
        staging.stager.add(staging.compression.decompress(bytes(part.data), size))
        staging.parts, staging.heard_s = staging.parts + 1, self._clock()
        self._prepare_when_whole(staging)

    def _make_room(self, memory: int) -> None:
        """Give up the way back when it and an update of that memory [bytes] are more than another model."""
        with self._lock:
            kept = sum(change.memory for change in self._inverse.changes) if self._inverse else 0
            if kept + memory > self._size:
                self._inverse = None

    def _prepare_when_whole(self, staging: Staging) -> None:
        if staging.stager.next_size():
            return
        header, changes = staging.header, staging.stager.finish()
        for change in changes:
            check_values(change.bits, change.spec.dtype, change.spec.name, self._limits.allow_nonfinite)
        if header.base_digest is None:
            digest = sum(entries_digest(change.spec, None, change.bits) for change in changes) % MODULUS
        else:
            digest = self._state.digest_after(changes, header.base_digest)
        if digest != header.digest:
            found, expected = show_digest(digest), show_digest(header.digest)
            raise WeightsError(Reason.DIGEST, f"found {found} as digest of the result, expected {expected}")
        self._state.require_equal_where_tied(changes)
        staged = self._state.stage(changes)
        base = None if header.base_digest is None else (header.base_version or 0, header.base_digest)
        assert self._trainer is not None  # whose update it is
        with self._lock:
            self._prepared = Prepared(self._trainer, header.version, digest, base, staged)
        self._staging = None

    def _refuse(self, peer: Peer, error: WeightsError) -> None:
        """Tell a trainer why; free what this server's own trainer had sent."""
        version, text = 0, str(error)
        if peer == self._trainer:
            self._staging, self._skips_parts, version = None, True, self._at_work
            text = f"update {version}: {error}" if version else text
        self._answers.refused(peer, Refused(version, error.reason, text))

    def _refuse_prepared(self, prepared: Prepared, reason: Reason, text: str) -> None:
        refused = Refused(prepared.version, reason, f"update {prepared.version}: {text}")
        self._answers.refused(prepared.peer, refused)

    # -- the thread that owns the weights --------------------------------------------------------------------

    def apply(self) -> int:
        """Serve the update that is prepared, if one is. Return the version that is served."""
        with self._lock:
            prepared, self._prepared = self._prepared, None
            if prepared is None:
                return self.version
            if prepared.base not in {None, self._served} or prepared.version <= self._highest:
                text = f"the server has gone to {self.version} meanwhile"
                self._refuse_prepared(prepared, Reason.BASE, text)
                return self.version
            begin_s = self._clock()
            try:
                self._state.exchange(prepared.changes)
            except MemoryError:
                text = f"found no memory to exchange it; {self.version} is served on"
                self._refuse_prepared(prepared, Reason.MEMORY, text)
                return self.version
            seconds = self._clock() - begin_s
            try:
                problem = self._check()
            except BaseException:
                self._state.exchange(prepared.changes[::-1])
                raise
            if problem:
                self._state.exchange(prepared.changes[::-1])
                self._refuse_prepared(prepared, Reason.PROBE, problem)
                return self.version
            self._inverse = Inverse(*self._served, prepared.changes[::-1])
            self._served, self._highest = (prepared.version, prepared.digest), prepared.version
        self._answers.applied(prepared.peer, Applied(prepared.version, prepared.digest, seconds))
        return prepared.version

    def rollback(self) -> int:
        """Serve the version before the last update again. Return it. An update that waits is refused.

        Raises WeightsError when there is no way back: nothing was applied, or one step back was taken. And
        when there is no memory for it; the way back is kept then.
        """
        with self._lock:
            if self._inverse is None:
                raise WeightsError(Reason.ORDER, f"rollback: version {self.version} has none before it here")
            try:
                self._state.exchange(self._inverse.changes)
            except MemoryError as error:
                text = f"rollback: found no memory to exchange the weights; {self.version} is served on"
                raise WeightsError(Reason.MEMORY, text) from error
            self._served = self._inverse.version, self._inverse.digest
            prepared, self._inverse, self._prepared = self._prepared, None, None
            if prepared:
                text = f"the server has gone back to {self.version} meanwhile"
                self._refuse_prepared(prepared, Reason.BASE, text)
            return self.version


_HANDLERS: Mapping[Kind, Callable[[WeightReceiver, Frame], None]] = {
    Kind.UPDATE: WeightReceiver._on_update,
    Kind.PART: WeightReceiver._on_part,
    Kind.RELEASE: WeightReceiver._on_release,
}
