# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The program's own exit codes, as shells and argparse have them."""

EXIT_USAGE = 2  # as argparse's
EXIT_INTERRUPTED = 130  # 128 + SIGINT
EXIT_BROKEN_PIPE = 141  # 128 + SIGPIPE
