# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policies that other people's servers compute: this server passes requests on and checks the answers."""
