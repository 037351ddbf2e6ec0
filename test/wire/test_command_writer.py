# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Commands carry the controller's joints in the controller's order."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from remote_inference.core.contract import FLOAT64_MULTI_ARRAY, CommandSink
from remote_inference.wire import CommandWriter, WireError

ACTION_NAMES = ("shoulder", "elbow", "wrist", "gripper")


def sink(names) -> CommandSink:
    return CommandSink(topic="arm/commands", type=FLOAT64_MULTI_ARRAY, names=tuple(names))


@settings(deadline=None)
@given(st.permutations(ACTION_NAMES), st.integers(1, 4))
def test_actions_go_out_in_the_controllers_order(order, count):
    values = dict(zip(ACTION_NAMES, (0.1, 0.2, 0.3, 0.4), strict=True))
    message = CommandWriter(sink(order[:count]), ACTION_NAMES).message(np.array([*values.values()]))
    assert message.data.tolist() == [values[name] for name in order[:count]]


def test_the_field_is_an_array_of_doubles():
    data = CommandWriter(sink(["wrist"]), ACTION_NAMES).message(np.arange(4.0)).data
    assert isinstance(data, array)
    assert data.typecode == "d"


@pytest.mark.parametrize("shape", [(3,), (5,), (1, 4)])
def test_an_action_of_another_shape_is_refused(shape):
    with pytest.raises(WireError, match=r"arm/commands: found an action \[.*\], expected \[4\]"):
        CommandWriter(sink(["wrist"]), ACTION_NAMES).message(np.zeros(shape))
