# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The server: sessions, mailboxes, scheduling and the inference worker."""
