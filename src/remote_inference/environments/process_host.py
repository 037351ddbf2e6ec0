# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A process that holds one environment for another: `python -m remote_inference.environments.process_host`.

It reads calls from its standard input and answers on its standard output; what an environment prints goes to
the standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from remote_inference.core.environment import Environment, require_promised
from remote_inference.environments.make import make_environment
from remote_inference.environments.process_frames import (
    PipeClosedError,
    metrics_to_map,
    observation_to_map,
    read_frame,
    spec_to_map,
    step_to_map,
    write_frame,
)
from remote_inference.errors import UserError


class Host:
    """Carries out the calls of an owner, in order."""

    def __init__(self) -> None:
        self._made: Environment | None = None
        self._wanted: tuple[str, ...] = ()

    def call(self, method: str, call: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a call."""
        if method == "make":
            self._made = make_environment(call["name"], call["options"])
            return spec_to_map(self._made.spec)
        environment = self._environment
        if method == "reset":
            self._wanted = tuple(call["wanted"])
            shown = environment.reset(call["seed"], call["task"], self._wanted)
            return observation_to_map(require_promised(environment.spec, self._wanted, shown))
        if method == "step":
            step = environment.step(call["action"])
            require_promised(environment.spec, self._wanted, step.observation)
            return step_to_map(step)
        if method == "metrics":
            return metrics_to_map(environment.metrics())
        if method == "render":
            return {"picture": environment.render()}
        raise ValueError(f"found method {method!r}, expected make, reset, step, metrics or render")

    def close(self) -> None:
        if self._made is not None:
            self._made.close()

    @property
    def _environment(self) -> Environment:
        assert self._made is not None, "its owner makes it first"
        return self._made


def main() -> None:
    """Serve until the owner closes the pipe."""
    calls, answers = 0, os.dup(1)
    os.dup2(2, 1)  # for what an environment prints
    sys.stdout = sys.stderr
    host = Host()
    with suppress(PipeClosedError, KeyboardInterrupt):
        while True:
            call = read_frame(calls)
            try:
                answer = host.call(call["method"], call)
            except UserError as error:
                answer = {"error": str(error)}
            except Exception as error:  # a simulator may raise anything; its owner is told
                answer = {"error": f"{call['method']}: {type(error).__name__}: {error}"}
            write_frame(answers, answer)
    host.close()


if __name__ == "__main__":
    main()
