# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A fleet with keys: description, certificates, access rules and the Zenoh configurations made of them."""
