# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What the code of a policy's author raises: heard by the watch and by the author, in words for the robot."""

from __future__ import annotations

from collections.abc import Callable

from remote_inference.core.device_loss import says_lost
from remote_inference.core.server.policy_watch import PolicyWatch


class AuthorErrors:
    """Takes them from any thread.

    They are caught as BaseException: a library in Rust panics with one, and `sys.exit` raises one. A thread
    of the server that ended with it would leave its robots without a word.
    """

    def __init__(self, watch: PolicyWatch, tell: Callable[[BaseException], None]) -> None:
        """tell: called with each error, for its author."""
        self._watch = watch
        self._tell = tell

    def take(self, what: str, error: BaseException) -> str:
        """Return what failed and why. Raises KeyboardInterrupt, which is no error of the author's."""
        if isinstance(error, KeyboardInterrupt):
            raise error
        text = f"{type(error).__name__}: {error}"
        if says_lost(error):
            self._watch.lose_device(text)
        self._tell(error)
        return f"{what}: {text}"
