# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The demo: a simulated arm picks moving cubes, driven by a policy server in another process."""
