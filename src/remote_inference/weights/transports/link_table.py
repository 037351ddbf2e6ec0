# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A server's links of which all messages come on one topic: who may open one, and whose a message is."""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Callable

from remote_inference.core.documents.problems import show_value
from remote_inference.weights.transports.fragment_link import FragmentLink, Publish
from remote_inference.weights.transports.fragments import PROTOCOL, Fragment, FragmentKind
from remote_inference.weights.transports.transport import Link, LinkClosedError

MAX_LINKS = 8  # one trainer updates a server; others are told so by the receiver
LINK_ID = re.compile(r"[0-9A-Za-z_-]{16,64}")


class LinkTable:
    """The links of trainers to one server. `accept` and `close` are for any thread, all else for one.

    publish: takes a fragment, on any thread.
    """

    def __init__(
        self,
        publish: Publish,
        now_s: Callable[[], float] = time.monotonic,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """now_s: a monotonic clock [s]. tell: takes why a link has ended, with its trainer's name."""
        self._publish, self._now_s, self._tell = publish, now_s, tell
        self._links: dict[str, FragmentLink] = {}
        self._new: queue.Queue[FragmentLink] = queue.Queue()
        self._is_closed = threading.Event()

    @property
    def is_closed(self) -> bool:
        return self._is_closed.is_set()

    def open(self, protocol: int, link_id: str, trainer: str) -> str:
        """Make a link that `accept` returns, once for each id. Return why not, or nothing."""
        self.tend()
        if self._is_closed.is_set():
            return "the server takes no weights any more"
        if protocol != PROTOCOL:
            return f"found protocol {protocol}, expected {PROTOCOL}"
        if not LINK_ID.fullmatch(link_id):
            return f"found link {show_value(link_id)}, expected 16 to 64 letters, digits, - or _"
        if link_id in self._links:
            return ""
        if len(self._links) >= MAX_LINKS:
            return f"{len(self._links)} trainers have links, expected fewer than {MAX_LINKS}"
        self._links[link_id] = FragmentLink(trainer, link_id, self._publish, self._now_s)
        self._new.put(self._links[link_id])
        return ""

    def put(self, fragment: Fragment) -> None:
        """Give a message to its link. The trainer of a link that is not known learns so."""
        link = self._links.get(fragment.link_id)
        if link is not None:
            link.put(fragment)
        elif fragment.kind is not FragmentKind.CLOSE:
            self._publish(Fragment(fragment.link_id, FragmentKind.CLOSE))

    def tend(self) -> None:
        """End the links that are silent, and forget those that have ended. Call it every second or so."""
        for link in self._links.values():
            link.tend()
            if link.is_closed:
                self._tell(link.end)
        self._links = {name: link for name, link in self._links.items() if not link.is_closed}

    def accept(self, timeout_s: float) -> Link:
        """Return the next trainer's link. Raises TimeoutError when none comes, LinkClosedError."""
        if self._is_closed.is_set():
            raise LinkClosedError("nobody listens any more")
        try:
            return self._new.get(timeout=timeout_s)
        except queue.Empty:
            raise TimeoutError from None

    def close(self) -> None:
        """End all links, and open no more."""
        self._is_closed.set()
        for link in tuple(self._links.values()):
            link.close()
