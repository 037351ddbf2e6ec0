# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What a manifest says of the robots that its server admits; the rules are in `base.admission`."""

from __future__ import annotations

from remote_inference.base.admission import ServerTerms
from remote_inference.server.manifest.manifest import Manifest


def terms_of(manifest: Manifest) -> ServerTerms:
    """Return the terms of a manifest's server while it is active and has no session."""
    return ServerTerms(
        default_task=manifest.default_task,
        pin_task=manifest.pin_task,
        strict_fps=manifest.strict_fps,
        max_sessions=manifest.max_sessions,
        active_sessions=0,
        load=0.0,
        accepting=True,
        limits=manifest.limits,
        updates_weights=manifest.weights is not None and manifest.weights.accept,
    )
