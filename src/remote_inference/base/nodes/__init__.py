# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What every node is made of: runtime, executors, parameters, periodic calls, diagnostics."""
