# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Both ends of live weights behind four verbs, whatever the strategy and the transport."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from remote_inference.weights.ledger import Built, SenderConfig
from remote_inference.weights.pump import Accept, ReceiverPump
from remote_inference.weights.reasons import Reason, WeightsError
from remote_inference.weights.receiver import WeightReceiver
from remote_inference.weights.sender import Connect, WeightSender
from remote_inference.weights.tensors.tensors import Tensors
from remote_inference.weights.turns import ReceiverLimits


class WeightSyncer:
    """Is one end: a trainer calls `init_sender` and `sync`, a server `init_receiver` and `apply`.

    `sender`, `receiver` and `pump` are there for all that the four verbs do not do.
    """

    def __init__(self, config: SenderConfig | None = None, limits: ReceiverLimits | None = None) -> None:
        self.sender: WeightSender | None = None
        self.receiver: WeightReceiver | None = None
        self.pump: ReceiverPump | None = None
        self._config, self._limits = config, limits

    def init_sender(
        self, read: Callable[[], Tensors], receivers: Mapping[str, Connect], version: int | None = None
    ) -> None:
        """Begin to send; see WeightSender and its `init_sender`."""
        self._require_new()
        sender = WeightSender(read, self._config)
        sender.init_sender(receivers, version)
        self.sender = sender

    def init_receiver(self, tensors: Tensors, accept: Accept | None = None, version: int = 0) -> None:
        """Begin to receive into tensors that are served as this version; see WeightReceiver, ReceiverPump."""
        self._require_new()
        self.receiver = WeightReceiver(tensors, version, self._limits)
        self.pump = ReceiverPump(self.receiver, *([accept] if accept else []))

    def sync(self, version: int) -> Built:
        """Send the trainer's tensors as they are now. Raises what WeightSender's `sync` raises."""
        if self.sender is None:
            raise WeightsError(Reason.ORDER, "sync: found no sender, expected init_sender first")
        return self.sender.sync(version)

    def apply(self) -> int:
        """Serve what has come, if it is whole; return the version served. Never waits for a trainer."""
        if self.receiver is None:
            raise WeightsError(Reason.ORDER, "apply: found no receiver, expected init_receiver first")
        return self.receiver.apply()

    def close(self) -> None:
        """End; the served weights stay as they are."""
        if self.sender:
            self.sender.close()
        if self.pump:
            self.pump.close()

    def _require_new(self) -> None:
        if self.sender or self.receiver:
            raise WeightsError(Reason.ORDER, "init: found an initialised end, expected another WeightSyncer")
