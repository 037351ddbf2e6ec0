# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The base of every error that the user can mend."""


class UserError(Exception):
    """What the user asked for cannot be done; the message says what, where, what was found and expected."""
