# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of `remote-inference replay`: an addition is one module, and its name in KINDS.

A module has OPTION (with the words that argparse needs for it), EXAMPLES, TAKES (the options that it takes
besides, with their places in the arguments, each without a default), JSON_SHAPE, add_arguments(parser) and
run(arguments), which returns the exit code. Kinds that share an option share its declaration.
"""

KINDS = ("decisions", "policy", "server", "arm")
