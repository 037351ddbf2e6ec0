# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Topics of a bag, and their quality of service as rosbag2 writes it since version 9 of metadata.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from rosbags.interfaces import Qos, QosTime


@dataclass(frozen=True)
class BagTopic:
    """One recorded topic. `offered_qos`: the QoS of its publishers, which `ros2 bag play` offers again."""

    name: str
    msgtype: str  # as in "std_msgs/msg/Header"
    offered_qos: tuple[Qos, ...] = ()

    def qos_document(self) -> list[dict[str, Any]]:
        """Return the offered QoS as the metadata of a bag holds them."""
        return [_qos_document(qos) for qos in self.offered_qos]

    def qos_text(self) -> str:
        """Return the offered QoS as a channel of an MCAP file holds them."""
        return yaml.safe_dump(self.qos_document(), sort_keys=False).strip() if self.offered_qos else ""


def _qos_document(qos: Qos) -> dict[str, Any]:
    return {
        "history": qos.history.name.lower(),
        "depth": qos.depth,
        "reliability": qos.reliability.name.lower(),
        "durability": qos.durability.name.lower(),
        "deadline": _span(qos.deadline),
        "lifespan": _span(qos.lifespan),
        "liveliness": qos.liveliness.name.lower(),
        "liveliness_lease_duration": _span(qos.liveliness_lease_duration),
        "avoid_ros_namespace_conventions": qos.avoid_ros_namespace_conventions,
    }


def _span(time: QosTime) -> dict[str, int]:
    return {"sec": time.sec, "nsec": time.nsec}
