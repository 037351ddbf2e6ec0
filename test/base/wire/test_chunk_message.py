# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Chunks survive the wire; a malformed chunk is refused, a non-finite one is left to the robot's engine."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as arrays
from rclpy.serialization import deserialize_message, serialize_message

from remote_inference.base.exchange import Chunk, ChunkStatus
from remote_inference.base.wire.arrays import WireError
from remote_inference.base.wire.chunk import chunk_from_message, chunk_to_message
from remote_inference.msg import ActionChunk

MODEL = np.arange(12, dtype=np.float32).reshape(4, 3)
CHUNK = Chunk("session-1", 2, 17, 3, 123456789, model=MODEL, robot=MODEL + 100)

duration = st.floats(0, 1e6, width=32)
shapes = st.tuples(st.integers(0, 6), st.integers(0, 4))


@st.composite
def chunks(draw) -> Chunk:
    shape = draw(shapes)
    return Chunk(
        session_id=draw(st.sampled_from(["", "s-1", "séance"])),
        session_epoch=draw(st.integers(0, 2**32 - 1)),
        seq_id=draw(st.integers(0, 2**64 - 1)),
        episode_id=draw(st.integers(0, 2**32 - 1)),
        client_mono_ns=draw(st.integers(-(2**63), 2**63 - 1)),
        status=draw(st.sampled_from(ChunkStatus)),
        message=draw(st.sampled_from(["", "out of memory"])),
        model=draw(arrays.arrays(np.float32, shape)),
        robot=draw(arrays.arrays(np.float32, shape)),
        queue_wait_ms=draw(duration),
        inference_ms=draw(duration),
        superseded_seqs=draw(st.integers(0, 2**32 - 1)),
        server_load=draw(st.floats(0, 1, width=32)),
        policy_version=draw(st.sampled_from(["", "sha256:abc"])),
    )


@settings(deadline=None)
@given(chunks())
def test_a_chunk_survives(chunk):
    message = deserialize_message(serialize_message(chunk_to_message(chunk, Time())), ActionChunk)
    arrived = chunk_from_message(message)
    for field in fields(Chunk):
        sent, received = getattr(chunk, field.name), getattr(arrived, field.name)
        if isinstance(sent, np.ndarray):
            assert received.dtype == np.float32
            assert (received.shape, received.tobytes()) == (sent.shape, sent.tobytes())
        else:
            assert received == sent


def test_an_error_has_no_rows():
    failed = replace(CHUNK, status=ChunkStatus.ERROR, message="no", model=MODEL[:0], robot=MODEL[:0])
    arrived = chunk_from_message(chunk_to_message(failed, Time()))
    assert arrived.status is ChunkStatus.ERROR
    assert arrived.model.shape == (0, 3)


def test_rows_are_views_of_the_message():
    message = chunk_to_message(CHUNK, Time())
    assert np.shares_memory(chunk_from_message(message).robot, np.frombuffer(message.chunk_robot, np.float32))


def test_values_that_are_not_finite_pass():
    chunk = replace(CHUNK, robot=np.full((4, 3), np.nan, np.float32))
    assert np.isnan(chunk_from_message(chunk_to_message(chunk, Time())).robot).all()


@pytest.mark.parametrize("field", ["chunk_model", "chunk_robot"])
def test_a_wrong_length_names_field_horizon_and_action_dim(field):
    message = chunk_to_message(CHUNK, Time())
    getattr(message, field).pop()
    with pytest.raises(
        WireError, match=rf"{field} \(horizon x action_dim\): found 11 values, expected 4 x 3 = 12"
    ):
        chunk_from_message(message)


def test_spaces_of_different_shapes_are_not_sent():
    with pytest.raises(WireError, match=r"found model \[4, 3\] and robot \[3, 3\]"):
        chunk_to_message(replace(CHUNK, robot=MODEL[1:]), Time())


def test_an_unknown_status_is_refused():
    message = chunk_to_message(CHUNK, Time())
    message.status = 9
    with pytest.raises(
        WireError, match=r"status: found 9, expected one of 0 \(OK\), 1 \(ERROR\), 2 \(DRAINING\)"
    ):
        chunk_from_message(message)


def test_another_schema_version_is_refused():
    message = chunk_to_message(CHUNK, Time())
    message.schema_version = 7
    with pytest.raises(WireError, match="chunk: found schema_version 7, expected 1 to 1"):
        chunk_from_message(message)


def test_the_status_values_are_those_of_the_interface():
    assert {status.name: status.value for status in ChunkStatus} == {
        "OK": ActionChunk.OK,
        "ERROR": ActionChunk.ERROR,
        "DRAINING": ActionChunk.DRAINING,
    }
