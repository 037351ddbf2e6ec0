# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Settings of the property tests of live weights."""

from hypothesis import HealthCheck, settings

# No deadline: tests assert no absolute times. No database: a failing example is printed and becomes a test.
settings.register_profile(
    "weights", deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("weights")
