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
from collections import Counter, deque
from collections.abc import Callable, Mapping

from remote_inference.weights.changes.changes import make_stager
from remote_inference.weights.changes.compression import make_compression
from remote_inference.weights.changes.held_updates import Inverse, Prepared, Staging
from remote_inference.weights.changes.served import ServedTensors
from remote_inference.weights.frames import SENDER_BYTES, Buffer, Frame, Kind, read_frame, read_part
from remote_inference.weights.header import (
    Applied,
    Header,
    Refused,
    Welcome,
    pack_applied,
    pack_refused,
    pack_welcome,
    read_header,
)
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.tensors.digest import MODULUS, entries_digest, show_digest
from remote_inference.weights.tensors.dtypes import check_values
from remote_inference.weights.tensors.tensors import Tensors, describe, size_of, table_digest
from remote_inference.weights.turns import TAKES, ReceiverLimits, Turn

_MAX_REPLIES = 64  # that nobody has fetched; older ones are dropped


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
        self.refusals: Counter[Reason] = Counter()
        self._state = ServedTensors(tensors, self.table)
        self._limits = limits or ReceiverLimits()
        self._clock, self._check, self._tell = clock, check, tell
        self._table_digest = table_digest(self.table)
        self._size = size_of(self.table)
        self._served = version, self._state.digest()
        self._lock = threading.Lock()  # of what both threads touch: _served, _prepared, _inverse
        self._prepared: Prepared | None = None
        self._inverse: Inverse | None = None
        self._staging: Staging | None = None
        self._trainer, self._trainer_heard_s = b"", 0.0
        self._at_work = 0  # version of the last update that began
        self._skips_parts = False  # of an update that was refused: they were on their way
        self._replies: deque[bytes] = deque(maxlen=_MAX_REPLIES)

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

    def take_replies(self) -> list[bytes]:
        """Return the frames that are to be sent to trainers, each once."""
        replies = []
        while self._replies:
            replies.append(self._replies.popleft())
        return replies

    # -- the thread of the frames ----------------------------------------------------------------------------

    def handle(self, data: Buffer) -> None:
        """Take a frame from a trainer, whatever its bytes are."""
        self.received_bytes += len(data)
        sender = self._trainer or bytes(SENDER_BYTES)  # of bytes that do not say from whom they are
        try:
            frame = read_frame(data)
            sender = frame.sender
            self._take(frame)
        except WeightsError as error:
            self._refuse(sender, error)
        except MemoryError:
            text = f"found no memory to prepare it beside a model of {self._size} bytes"
            self._refuse(sender, WeightsError(Reason.MEMORY, text))

    def check_time(self) -> None:
        """Give up an update whose trainer has fallen silent. To be called now and then."""
        staging = self._staging
        if staging and self._clock() - staging.heard_s > self._limits.stall_s:
            text = f"found no part for {self._limits.stall_s:g} s, expected the next one"
            self._refuse(self._trainer, WeightsError(Reason.STALLED, text))

    def forget(self, sender: bytes) -> None:
        """Let another trainer take this one's place: it has gone. What it had not sent whole is freed."""
        if sender == self._trainer:
            self._trainer, self._staging = b"", None

    def _take(self, frame: Frame) -> None:
        self._check_trainer(frame)
        if frame.kind is Kind.PART and self._skips_parts:
            return
        if frame.kind not in TAKES[self.turn]:
            text = f"found {frame.kind.name.lower()}, while the server waits for {self.turn.value}"
            raise WeightsError(Reason.ORDER, text)
        _HANDLERS[frame.kind](self, frame)

    def _check_trainer(self, frame: Frame) -> None:
        """Raise WeightsError for a frame of anybody but the trainer that this server listens to."""
        now_s = self._clock()
        is_vacant = not self._trainer or now_s - self._trainer_heard_s > self._limits.claim_s
        if frame.sender != self._trainer and not (is_vacant and frame.kind is Kind.HELLO):
            found = f"trainer {frame.sender.hex()}"
            expected = (
                f"{self._trainer.hex()}, which updates this server" if self._trainer else "a hello first"
            )
            raise WeightsError(Reason.CLAIMED, f"found {found}, expected {expected}")
        self._trainer_heard_s = now_s

    def _on_hello(self, frame: Frame) -> None:
        self._trainer, self._staging, self._skips_parts, self._at_work = frame.sender, None, False, 0
        with self._lock:
            self._prepared = None
            version, digest = self._served
        self._replies.append(pack_welcome(frame.sender, Welcome(version, digest, self.table)))

    def _on_release(self, frame: Frame) -> None:
        self.forget(frame.sender)

    def _on_update(self, frame: Frame) -> None:
        header = read_header(frame)
        self._skips_parts, self._at_work = False, header.version
        self._check_header(header)
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

    def _check_header(self, header: Header) -> None:
        version, digest = self._served
        if header.table != self._table_digest:
            text = f"found {header.table.hex()} as digest of the tensors, expected {self._table_digest.hex()}"
            raise WeightsError(Reason.ARCHITECTURE, text)
        if header.base_digest is not None and (header.base_version, header.base_digest) != (version, digest):
            found = f"{header.base_version} ({show_digest(header.base_digest)})"
            raise WeightsError(
                Reason.BASE,
                f"found base {found}, expected {version} ({show_digest(digest)}), which is served",
            )
        if header.version <= version:
            raise WeightsError(Reason.ORDER, f"expected a version above {version}, which is served")

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
        staged = self._state.stage(changes)
        base = None if header.base_digest is None else (header.base_version or 0, header.base_digest)
        with self._lock:
            self._prepared = Prepared(self._trainer, header.version, digest, base, staged)
        self._staging = None

    def _refuse(self, sender: bytes, error: WeightsError) -> None:
        """Tell a trainer why; free what this server's own trainer had sent."""
        version, text = 0, str(error)
        if sender == self._trainer:
            self._staging, self._skips_parts, version = None, True, self._at_work
            text = f"update {version}: {error}" if version else text
        self._reply_refused(sender, Refused(version, error.reason, text))

    def _reply_refused(self, sender: bytes, refused: Refused) -> None:
        self.refusals[refused.reason] += 1
        self._replies.append(pack_refused(sender, refused))
        self._tell(refused)

    # -- the thread that owns the weights --------------------------------------------------------------------

    def apply(self) -> int:
        """Serve the update that is prepared, if one is. Return the version that is served."""
        with self._lock:
            prepared, self._prepared = self._prepared, None
            if prepared is None:
                return self.version
            if prepared.base not in {None, self._served} or prepared.version <= self.version:
                text = f"update {prepared.version}: the server has gone to {self.version} meanwhile"
                self._reply_refused(prepared.sender, Refused(prepared.version, Reason.BASE, text))
                return self.version
            begin_s = self._clock()
            self._state.exchange(prepared.changes)
            seconds = self._clock() - begin_s
            if problem := self._check():
                self._state.exchange(prepared.changes[::-1])
                text = f"update {prepared.version}: {problem}"
                self._reply_refused(prepared.sender, Refused(prepared.version, Reason.PROBE, text))
                return self.version
            self._inverse = Inverse(*self._served, prepared.changes[::-1])
            self._served = prepared.version, prepared.digest
        applied = Applied(prepared.version, prepared.digest, seconds)
        self._replies.append(pack_applied(prepared.sender, applied))
        self._tell(applied)
        return prepared.version

    def rollback(self) -> int:
        """Serve the version before the last update again. Return it.

        Raises WeightsError when there is no way back: nothing was applied, or one step back was taken.
        """
        with self._lock:
            if self._inverse is None:
                raise WeightsError(Reason.ORDER, f"rollback: version {self.version} has none before it here")
            self._state.exchange(self._inverse.changes)
            self._served = self._inverse.version, self._inverse.digest
            self._inverse = self._prepared = None
            return self.version


_HANDLERS: Mapping[Kind, Callable[[WeightReceiver, Frame], None]] = {
    Kind.HELLO: WeightReceiver._on_hello,
    Kind.UPDATE: WeightReceiver._on_update,
    Kind.PART: WeightReceiver._on_part,
    Kind.RELEASE: WeightReceiver._on_release,
}
