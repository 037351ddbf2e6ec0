# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The smoothest way between two points at rest."""


def minimum_jerk(share: float) -> float:
    """Return the covered share of a way, 0 to 1, after a share of its time (Flash and Hogan 1985).

    Before the begin it is 0, after the end 1.
    """
    s = min(1.0, max(0.0, share))
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)
