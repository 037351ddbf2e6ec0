# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The node policy_server, which serves one policy to the robots that it admits."""
