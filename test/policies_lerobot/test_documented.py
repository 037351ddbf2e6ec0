# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The table of docs/how-to/lerobot.md, beside the policies themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from remote_inference.base.policy import Policy, PolicyError, ServingMode
from remote_inference.server.policies.lerobot.checkpoint import FAMILIES, WITHOUT_CHUNKS
from remote_inference.server.warmup import find_serving_mode
from support.lerobot.tiny_policies import Built

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "lerobot.md").read_text()


def read_table() -> dict[str, list[str]]:
    """Return the cells of each kind of policy, without the kind."""
    _, table = PAGE.split("| kind | ")
    table, _ = table.split("\n\n", 1)
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    return {kind: cells for kinds, *cells in rows for kind in re.findall(r"`(\w+)`", kinds)}


ROWS = read_table()


def test_every_kind_has_a_row() -> None:
    assert ROWS.keys() == FAMILIES.keys()
    for kind in WITHOUT_CHUNKS:
        assert f"`{kind}`" in PAGE


@pytest.mark.parametrize("kind", list(FAMILIES))
def test_a_row_says_what_the_policy_does(
    kind: str, built: dict[str, Built], policies: dict[str, Policy]
) -> None:
    continues, batches, robots, language, history, dtypes = ROWS[kind]
    policy = policies[kind]
    assert (continues == "yes") == policy.spec.supports_rtc
    assert batches.startswith("one by one") == (policy.spec.max_batch == 1)
    assert (robots == "many") == (find_serving_mode(policy, "pick").mode is ServingMode.SHARED)
    assert language.startswith("yes") == ("language_model" in built[kind].options)
    assert history.startswith("yes") == FAMILIES[kind].has_time_axis
    for dtype in ("float32", "bfloat16", "float16"):
        if f"`{dtype}`" in dtypes:
            built[kind].load(dtype=dtype).close()
        else:
            with pytest.raises(PolicyError, match=r"model\.dtype"):
                built[kind].load(dtype=dtype)
