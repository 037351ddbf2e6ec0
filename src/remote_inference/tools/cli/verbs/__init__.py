# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""One module per verb: `EXAMPLES`, `add_arguments(parser)` and `run(arguments)`, which returns the exit code.

A module imports at its top only what its arguments need. `run` imports the rest, so that help, completion and
a misspelt option take no time.
"""
