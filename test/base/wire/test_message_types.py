# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A type that is not installed is refused with what installs it, by the ROS 2 that is there."""

from __future__ import annotations

import pytest

from remote_inference.base import paths
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.message_types import command_class, find_remedy


@pytest.mark.parametrize(
    ("sourced", "wheels", "remedy"),
    [
        ("kilted", "jazzy", "sudo apt install ros-kilted-gone-msgs, or build gone_msgs in the workspace"),
        (
            "",
            "jazzy",
            "pip install ros-jazzy-gone-msgs; a package without a wheel, such as control_msgs, needs a ROS 2 "
            "installation",
        ),
        ("", "", "install the ROS package gone_msgs"),
    ],
    ids=["sourced", "wheels", "neither"],
)
def test_a_missing_package_is_refused_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, sourced: str, wheels: str, remedy: str
) -> None:
    monkeypatch.setenv("ROS_DISTRO", sourced)
    monkeypatch.setattr(paths, "distribution_of_wheels", lambda: wheels)
    for name, kind in (("gone_msgs/msg/Twist", "message"), ("gone_msgs/action/Close", "action")):
        assert find_remedy(name) == remedy
        with pytest.raises(WireError) as refused:
            command_class(name)
        assert str(refused.value) == f"{kind} type '{name}' is not installed; {remedy}"


@pytest.mark.parametrize("name", ["std_msgs/msg/Flot32", "os/msg/Path", "", "no type", "a.b/msg/C"])
def test_a_name_that_no_package_would_mend_is_refused_with_what_a_name_looks_like(name: str) -> None:
    with pytest.raises(WireError, match="is not installed; expected 'package/msg/Name'"):
        command_class(name)
