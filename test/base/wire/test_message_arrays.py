# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Numeric and msgpack fields: exact, read without copies, and assigned as the type that rclpy copies fast."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from arm_writer import ACTION_NAMES, STAMP, writer
from builtin_interfaces.msg import Time
from hypothesis import given, settings
from hypothesis.extra import numpy as arrays
from sensor_msgs.msg import CompressedImage, Image, JointState
from std_msgs.msg import Float64MultiArray
from trajectory_msgs.msg import JointTrajectoryPoint

from remote_inference.base.contract.image_source import IMAGE, ImageSource
from remote_inference.base.contract.state_source import JOINT_STATE
from remote_inference.base.exchange import Chunk, ImageFeature, Request
from remote_inference.base.wire.arrays import WireError, float32_field, float64_field, from_float32_field
from remote_inference.base.wire.chunk import chunk_to_message
from remote_inference.base.wire.images.images import image_to_message
from remote_inference.base.wire.observation import observation_to_message
from remote_inference.base.wire.sensors.state_readers import CameraReader
from remote_inference.msg import ActionChunk, Observation
from support.builders import FLOAT64_MULTI_ARRAY, JOINT_TRAJECTORY


@settings(deadline=None)
@given(arrays.arrays(np.float32, arrays.array_shapes(max_dims=3, max_side=6)))
def test_float32_survives_bit_by_bit(values):
    field = float32_field(values)
    assert isinstance(field, array)
    assert field.typecode == "f"
    assert from_float32_field(field, values.shape, "x").tobytes() == values.tobytes()


def test_views_are_written_row_by_row():
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert float32_field(values.T).tolist() == [0, 3, 1, 4, 2, 5]
    assert float64_field(values[:, ::2]).tolist() == [0, 2, 3, 5]


def test_reading_copies_nothing_and_cannot_change_the_message():
    field = float32_field(np.arange(6))
    view = from_float32_field(field, (2, 3), "x")
    assert np.shares_memory(view, np.frombuffer(field, np.float32))
    with pytest.raises(ValueError, match="read-only"):
        view[0, 0] = 1


def test_an_empty_field_has_an_empty_shape():
    assert from_float32_field(array("f"), (0, 6), "x").shape == (0, 6)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((7,), "expected 7$"), ((2, 4), "expected 2 x 4 = 8$"), ((0, 6), "expected 0 x 6 = 0$")],
)
def test_a_wrong_length_names_the_field_and_both_lengths(shape, expected):
    with pytest.raises(WireError, match=f"state: found 6 values, {expected}"):
        from_float32_field(float32_field(np.zeros(6)), shape, "state")


PREFIX = np.zeros((2, 3), np.float32)
REQUEST = Request("", 1, 1, 1, False, 1, "", 0, prefix_model=PREFIX, prefix_robot=PREFIX)
CHUNK = Chunk("", 1, 1, 1, 1, model=PREFIX, robot=PREFIX)


PREFIX = np.zeros((2, 3), np.float32)
REQUEST = Request("", 1, 1, 1, False, 1, "", 0, prefix_model=PREFIX, prefix_robot=PREFIX)
CHUNK = Chunk("", 1, 1, 1, 1, model=PREFIX, robot=PREFIX)
RAW = image_to_message(np.zeros((2, 2, 3), np.uint8))
CAMERA = ImageSource(topic="camera", type=IMAGE)


def write_command(message_type: str):
    return writer(ACTION_NAMES, message_type=message_type).message(np.zeros((1, 4)), STAMP)


@pytest.mark.parametrize(
    ("message", "field", "write"),
    [
        (Observation, "state", lambda: observation_to_message(REQUEST, PREFIX[0], [], Time())),
        (Observation, "prefix_model", lambda: observation_to_message(REQUEST, PREFIX[0], [], Time())),
        (Observation, "prefix_robot", lambda: observation_to_message(REQUEST, PREFIX[0], [], Time())),
        (ActionChunk, "chunk_model", lambda: chunk_to_message(CHUNK, Time())),
        (ActionChunk, "chunk_robot", lambda: chunk_to_message(CHUNK, Time())),
        (Image, "data", lambda: image_to_message(np.zeros((2, 2, 3), np.uint8))),
        (CompressedImage, "data", lambda: CameraReader(CAMERA, ImageFeature("front", "jpeg")).read(RAW)),
        (Float64MultiArray, "data", lambda: write_command(FLOAT64_MULTI_ARRAY)),
        (JointState, "position", lambda: write_command(JOINT_STATE)),
        (JointTrajectoryPoint, "positions", lambda: write_command(JOINT_TRAJECTORY)),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "__name__", None),
)
def test_every_writer_assigns_arrays(message, field, write, monkeypatch):
    """rclpy copies numpy arrays and memoryviews element by element (benchmarks/image_codecs.py)."""
    assigned = []
    original = getattr(message, field)

    def record(instance, value):
        assigned.append(value)
        original.fset(instance, value)

    monkeypatch.setattr(message, field, original.setter(record))
    write()
    assert assigned
    assert all(isinstance(value, array) for value in assigned)
