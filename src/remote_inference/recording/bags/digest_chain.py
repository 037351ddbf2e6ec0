# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The hash chain over what a bag holds: each link is the SHA-256 of the one before and of what came since.

Messages are hashed as they were received, not as they lie in the file: another compression or another size of
chunks changes no link. There is no key in it. It shows every accidental change, and every deliberate one by
somebody who did not also compute all later links anew; against that one, keep the last digest elsewhere.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping

START = bytes(32)  # what the first link of a bag follows
_MESSAGE = struct.Struct("<c32sIQQQ")


def digest_texts(*texts: str | bytes) -> bytes:
    """Return the SHA-256 of some texts, each with its length before it: "a", "bc" differs from "ab", "c"."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode() if isinstance(text, str) else text
        digest.update(struct.pack("<Q", len(data)) + data)
    return digest.digest()


class DigestChain:
    """Takes what is written, in its order; `link` closes a link and begins the next."""

    def __init__(self, previous: bytes = START) -> None:
        """previous: [32 bytes] digest of the link before."""
        self.digest = previous
        self.messages = 0  # of the open link
        self._hash = hashlib.sha256(previous)

    def add_message(
        self, channel: bytes, sequence: int, log_time_ns: int, publish_time_ns: int, data: bytes
    ) -> None:
        """Add a message. channel: [32 bytes] digest of its topic, type and definition."""
        self._hash.update(_MESSAGE.pack(b"m", channel, sequence, log_time_ns, publish_time_ns, len(data)))
        self._hash.update(data)
        self.messages += 1

    def add_record(self, name: str, values: Mapping[str, str]) -> None:
        """Add a metadata record; the order of its values does not matter."""
        texts = [text for key in sorted(values) for text in (key, values[key])]
        self._hash.update(b"r" + digest_texts(name, *texts))

    def link(self) -> bytes:
        """Close the link and return its digest [32 bytes]."""
        self.digest = self._hash.digest()
        self.continue_from(self.digest)
        return self.digest

    def continue_from(self, previous: bytes) -> None:
        """Begin a link after another digest, when a link of a bag does not fit: the next may fit again."""
        self.messages = 0
        self._hash = hashlib.sha256(previous)
