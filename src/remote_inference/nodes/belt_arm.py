# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Node `belt_arm`: the simulated robot of the demo, in real time.

    belt_arm --ros-args -r __ns:=/robot_1

Publishes joint_states and two cameras at 30 Hz, each raw and as JPEG as image_transport does, and takes
position targets like ros2_control's forward controller. `~/reset_episode` begins an episode by seed,
`~/read_outcome` returns its outcome so far.
"""

from __future__ import annotations

import math
import time

import numpy as np
from rclpy.node import Node
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray, Header

from remote_inference.core.document import Document
from remote_inference.environments.belt_arm.scene import (
    CAMERA_NAMES,
    CONTROL_HZ,
    JOINT_NAMES,
    BeltArm,
    RenderingUnavailableError,
)
from remote_inference.nodes.parameters import declare_parameters
from remote_inference.nodes.runtime import STEADY_CLOCK, StartupError, run_node
from remote_inference.srv import BeltArmOutcome, BeltArmReset
from remote_inference.wire import bytes_field, encode_jpeg, float64_field, image_to_message
from remote_inference.wire.qos import COMMAND_QOS, SENSOR_QOS

COMMAND_TOPIC = "forward_position_controller/commands"
JPEG_QUALITY = 90  # as in the policy's training data
PHYSICS_PERIOD_S = 0.01  # how often physics is brought up to the wall clock


class BeltArmNode(Node):
    """The node around BeltArm. Rendering needs the thread that made the context, so all runs on one."""

    def __init__(self) -> None:
        super().__init__("belt_arm")
        self.exit_code: int | None = None
        declare_parameters(self, Document)  # no parameters: any that is given is a mistake
        try:
            self._arm = BeltArm()
        except RenderingUnavailableError as error:
            raise StartupError(str(error)) from error
        self._begin(seed=0)
        self._joint_publisher = self.create_publisher(JointState, "joint_states", SENSOR_QOS)
        self._raw_publishers = {
            camera: self.create_publisher(Image, f"{camera}/image_raw", SENSOR_QOS) for camera in CAMERA_NAMES
        }
        self._jpeg_publishers = {
            camera: self.create_publisher(CompressedImage, f"{camera}/image_raw/compressed", SENSOR_QOS)
            for camera in CAMERA_NAMES
        }
        self.create_subscription(Float64MultiArray, COMMAND_TOPIC, self._on_command, COMMAND_QOS)
        self.create_service(BeltArmReset, "~/reset_episode", self._on_reset)
        self.create_service(BeltArmOutcome, "~/read_outcome", self._on_outcome)
        self.create_timer(PHYSICS_PERIOD_S, self._advance, clock=STEADY_CLOCK)
        self.create_timer(1.0 / CONTROL_HZ, self._publish, clock=STEADY_CLOCK)

    def close(self) -> None:
        """Free the rendering context."""
        self._arm.close()

    def _begin(self, seed: int) -> None:
        self._arm.reset(seed)
        self._seed = seed
        self._success_s = math.nan
        self._begin_s = time.monotonic()

    def _advance(self) -> None:
        self._arm.advance_to(time.monotonic() - self._begin_s)
        if math.isnan(self._success_s) and self._arm.success:
            self._success_s = self._arm.sim_time_s

    def _publish(self) -> None:
        self._advance()
        stamp = self.get_clock().now().to_msg()
        self._joint_publisher.publish(
            JointState(
                header=Header(stamp=stamp),
                name=list(JOINT_NAMES),
                position=float64_field(self._arm.joint_positions()),
                velocity=float64_field(self._arm.joint_velocities()),
            )
        )
        for camera in CAMERA_NAMES:
            self._publish_camera(camera, Header(stamp=stamp, frame_id=camera))

    def _publish_camera(self, camera: str, header: Header) -> None:
        raw, jpeg = self._raw_publishers[camera], self._jpeg_publishers[camera]
        picture = self._arm.render(camera)
        if raw.get_subscription_count():
            image = image_to_message(picture)
            image.header = header
            raw.publish(image)
        if jpeg.get_subscription_count():
            data = bytes_field(encode_jpeg(picture, JPEG_QUALITY))
            jpeg.publish(CompressedImage(header=header, format="jpeg", data=data))

    def _on_command(self, message: Float64MultiArray) -> None:
        self._advance()
        try:
            self._arm.set_command(np.frombuffer(message.data))
        except ValueError as error:
            self.get_logger().error(f"command ignored: {error}", throttle_duration_sec=1.0)

    def _on_reset(
        self, request: BeltArmReset.Request, response: BeltArmReset.Response
    ) -> BeltArmReset.Response:
        self._begin(request.seed)
        response.success = True
        response.message = f"episode with seed {request.seed} began"
        return response

    def _on_outcome(
        self, _: BeltArmOutcome.Request, response: BeltArmOutcome.Response
    ) -> BeltArmOutcome.Response:
        response.seed = self._seed
        response.success = not math.isnan(self._success_s)
        response.elapsed_s = self._arm.sim_time_s
        response.success_s = self._success_s
        response.cube_position = self._arm.cube_position
        return response


def main(args: list[str] | None = None) -> int:
    """Simulate until SIGINT or SIGTERM; return the exit code."""
    return run_node(BeltArmNode, args)
