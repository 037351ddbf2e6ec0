# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`policy_version`, the text by which chunks and actions say which weights they come from."""

from __future__ import annotations

_MARK = "@"


def show_policy_version(fingerprint: str, weights_version: int) -> str:
    """Return the policy's fingerprint, and `@` with the version of weights that came while it was served.

    weights_version: 0 for the weights that were loaded, which the fingerprint names.
    """
    return f"{fingerprint}{_MARK}{weights_version}" if weights_version else fingerprint


def fingerprint_of(policy_version: str) -> str:
    """Return the fingerprint in a `policy_version`: that of the session, whatever weights came since."""
    return policy_version.partition(_MARK)[0]
