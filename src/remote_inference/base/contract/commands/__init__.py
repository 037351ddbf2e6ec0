# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""What takes commands: message types, controllers, who listens, and what the watchdog switches to."""
