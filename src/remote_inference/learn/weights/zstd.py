# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Zstandard, from Python 3.14 on in its library, before in `backports.zstd`."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from remote_inference.learn.weights.changes import require_size
from remote_inference.learn.weights.reasons import Reason, WeightsError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL = 1  # values of trained weights hardly shrink further at any level
# 16 MiB: all that a frame may ask of the memory.
_WINDOW: Mapping[int, int] = {zstd.DecompressionParameter.window_log_max: 24}


class Zstd:
    """See Compression."""

    def compress(self, data: bytes) -> bytes:
        compressed: bytes = zstd.compress(data, level=_LEVEL)
        return compressed

    def decompress(self, data: bytes, size: int) -> bytes:
        decompressor = zstd.ZstdDecompressor(options=_WINDOW)
        try:
            found: bytes = decompressor.decompress(data, max_length=size + 1)
        except (zstd.ZstdError, EOFError) as error:
            raise WeightsError(Reason.PAYLOAD, f"part: zstd cannot decompress it: {error}") from error
        require_size(len(found), size)
        return found
