# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The robot's engine in simulated worlds: servers, networks, controllers and judges."""
