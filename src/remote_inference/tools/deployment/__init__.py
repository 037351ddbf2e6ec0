# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Which processes make up a deployment, how they are started, and whether their files fit."""
