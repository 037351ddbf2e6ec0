# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Settings of the property tests here."""

import support.property_settings  # noqa: F401
