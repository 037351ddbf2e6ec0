# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Policies on other people's servers: what is sent, what is checked, and what happens when one goes away."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

from support.builders import make_offer, make_terms
from support.waiting import wait_until

pytest.importorskip("zmq", reason="found no pyzmq, which requirements/server.txt lists")
pytest.importorskip("websockets", reason="found no websockets, which requirements/server.txt lists")

from remote_inference.base.admission import judge
from remote_inference.base.documents.document import DocumentError, parse_document
from remote_inference.base.exchange import ImageFeature
from remote_inference.base.policy import Policy, PolicyError, PolicyObservation, ServingMode
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies import load_policy
from remote_inference.server.warmup import find_serving_mode
from support.policies.remote_models import FEATURE, entries, model_of
from support.policies.remote_peers import CHUNK_SIZE, GR00T_MODALITIES, PeerProcess, openpi_unpack
from support.policies.stock_openpi import STOCK, peer_of

WIRES = ("gr00t", "openpi")
SERVERS = (*WIRES, STOCK)
STATE = np.array([0.25, -0.5], np.float32)
Start = Callable[..., PeerProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers that end with the test."""
    peers: list[PeerProcess] = []

    def start_one(wire: str, **settings: Any) -> PeerProcess:
        peers.append(peer_of(wire)(wire, tmp_path / "requests", **settings))
        return peers[-1]

    yield start_one
    for peer in peers:
        if peer.process.poll() is None:
            peer.kill()


def load(peer: PeerProcess, folder: Path | None = None, **options: Any) -> Policy:
    content = model_of(peer, **options)
    source = parse_document({**content, "path": str(folder or ".")}, ModelSource, "model")
    return load_policy(source)


def observe(**changes: Any) -> PolicyObservation:
    image = np.arange(24 * 32 * 3, dtype=np.uint8).reshape(24, 32, 3)
    return PolicyObservation(**{"state": STATE, "images": {FEATURE: image}, "task": "hold", **changes})


def ask(policy: Policy, **changes: Any) -> np.ndarray:
    processors = policy.make_processors()
    (rows,) = policy.predict([processors.pre(observe(**changes))])
    return processors.post(rows)


def answers(policy: Policy, first_row: np.ndarray) -> bool:
    """Return whether the policy answers; fails when it answers with something else."""
    try:
        rows = ask(policy)
    except PolicyError:
        return False
    np.testing.assert_array_equal(rows[0], first_row)
    return True


@pytest.mark.parametrize("wire", WIRES)
def test_a_chunk_has_the_manifest_s_names_and_horizon(wire: str, start: Start):
    policy = load(start(wire))
    assert (policy.spec.state_names, policy.spec.action_names) == (("shoulder", "elbow"),) * 2
    assert (policy.spec.chunk_size, policy.spec.trained_fps) == (CHUNK_SIZE, 30.0)
    rows = ask(policy)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.tile(STATE, (CHUNK_SIZE, 1)))
    assert find_serving_mode(policy, "hold").mode is ServingMode.SHARED
    policy.close()


def test_the_columns_of_a_gr00t_answer_follow_the_names(start: Start):
    policy = load(start("gr00t"), actions=entries(gripper="elbow", single_arm="shoulder"))
    assert policy.spec.action_names == ("elbow", "shoulder")
    np.testing.assert_array_equal(ask(policy)[0], STATE[::-1])


def test_gr00t_requests_are_the_bytes_of_its_wire_and_never_kill(start: Start, tmp_path: Path):
    (tmp_path / "key").write_text("secret\n")
    peer = start("gr00t", key="secret")
    policy = load(peer, tmp_path, api_key_file="key")
    ask(policy)
    policy.reset()
    ask(policy)
    policy.close()

    def npy(array: np.ndarray) -> dict[str, Any]:
        stream = io.BytesIO()
        np.save(stream, array, allow_pickle=False)
        return {"__ndarray_class__": True, "as_npy": stream.getvalue()}

    token = {"api_token": "secret"}
    observation = {
        "video": {"ego_view": npy(observe().images[FEATURE][np.newaxis, np.newaxis])},
        "state": {"single_arm": npy(STATE[None, None, :1]), "gripper": npy(STATE[None, None, 1:])},
        "language": {"annotation.human.task_description": [["hold"]]},
    }
    action = {"endpoint": "get_action", "data": {"observation": observation, "options": None}, **token}
    assert peer.requests() == [
        msgpack.packb(request)
        for request in (
            {"endpoint": "ping", **token},
            {"endpoint": "get_modality_config", **token},
            action,
            {"endpoint": "reset", "data": {"options": None}, **token},
            action,
        )
    ]


def test_openpi_requests_have_the_keys_of_the_manifest(start: Start):
    peer = start("openpi")
    image = {"key": "cam_high", "inside": "images", "size": [12, 16]}
    ask(load(peer, images={FEATURE: image}, layout="chw", endpoints=True, prompt="task"))
    (request,) = map(openpi_unpack, peer.requests())
    assert request["task"] == "hold"
    assert request["endpoint"] == "infer"
    assert request["images"]["cam_high"].shape == (3, 12, 16)
    assert request["images"]["cam_high"].dtype == np.uint8
    assert request["observation/joint_position"] == STATE[:1]


def test_a_server_at_a_path_may_answer_with_rows_alone_as_vllm_omni_does(start: Start):
    peer = start("openpi", path="/v1/realtime/robot/openpi", bare=True)
    url = f"ws://127.0.0.1:{peer.port}/v1/realtime/robot/openpi"
    assert ask(load(peer, url=url)).shape == (CHUNK_SIZE, 2)
    with pytest.raises(PolicyError, match=r"openpi server at ws://\S+: found HTTP status 404"):
        load(peer)


@pytest.mark.parametrize("wire", [STOCK])
def test_the_frames_of_openpi_client_itself_are_spoken(wire: str, start: Start):
    """Its server side reads and writes with the module that openpi's own server uses."""
    policy = load(start(wire))
    np.testing.assert_array_equal(ask(policy), np.tile(STATE, (policy.spec.chunk_size, 1)))


def test_an_openpi_server_with_endpoints_is_reset_before_the_next_episode(start: Start):
    peer = start("openpi")
    policy = load(peer, endpoints=True)
    policy.reset()
    ask(policy)
    assert [openpi_unpack(request)["endpoint"] for request in peer.requests()] == ["reset", "infer"]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("nan", r"found nan at \[.*3, 0\], expected finite numbers"),
        ("horizon", r"found shape \[(1, )?16, [12]\], expected \[(1, )?20, [12]\]"),
        ("integers", "found int32, expected floating-point numbers"),
        ("objects", r"array: dtype: found '\|O', expected one of"),
        (
            "missing",
            r"found nothing, expected an array of shape|answer: found a map with 'server_timing', "
            "expected 'actions'",
        ),
        ("refusal", "the server says: .*(Video key|KeyError)"),
        ("silent", r"no answer within [12].\d s"),
    ],
)
def test_a_wrong_answer_is_an_error_in_words(wire: str, fault: str, message: str, start: Start):
    policy = load(start(wire, fault=fault), first_timeout_s=2.0)
    with pytest.raises(PolicyError, match=message) as caught:
        ask(policy)
    assert "\n" not in str(caught.value)
    policy.close()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("arrays", ["openpi", "msgpack-numpy", "lists"])
def test_an_answer_is_read_however_its_arrays_are_spelled(wire: str, arrays: str, start: Start):
    policy = load(start(wire, arrays=arrays))
    np.testing.assert_array_equal(ask(policy), np.tile(STATE, (CHUNK_SIZE, 1)))


@pytest.mark.parametrize("wire", WIRES)
def test_lists_of_several_lengths_are_no_chunk(wire: str, start: Start):
    with pytest.raises(
        PolicyError,
        match="found lists of several lengths, or of what is no number, expected an array of shape",
    ):
        ask(load(start(wire, arrays="lists", fault="ragged")))


def test_an_openpi_answer_by_action_says_what_was_found(start: Start):
    """As GR00T behind vLLM-Omni gives it."""
    policy = load(start("openpi", fault="by key"))
    found = "found a map with 'action.gripper', 'action.single_arm', 'server_timing'"
    with pytest.raises(PolicyError, match=f"answer: {found}, expected 'actions'"):
        ask(policy)


@pytest.mark.parametrize("wire", SERVERS)
def test_a_killed_server_costs_errors_until_it_is_back(wire: str, start: Start):
    peer = start(wire)
    policy = load(peer, timeout_s=2.0)
    ask(policy)
    peer.kill()
    with pytest.raises(PolicyError, match=r"no answer within|the connection ended|cannot connect"):
        ask(policy)
    with pytest.raises(PolicyError, match=r"the next attempt is in \d\.\d s"):
        ask(policy)
    peer.start()
    wait_until(lambda: answers(policy, STATE), "an answer of the new process")


@pytest.mark.parametrize("wire", SERVERS)
def test_a_frozen_server_costs_errors_and_its_late_answer_is_not_taken(wire: str, start: Start):
    peer = start(wire)
    policy = load(peer, timeout_s=2.0)
    ask(policy)
    peer.freeze()
    with pytest.raises(PolicyError, match=r"no answer within [12].\d s"):
        ask(policy, state=np.float32([1.0, 1.0]))
    peer.thaw()
    wait_until(lambda: answers(policy, STATE), "an answer after the thaw")


def test_a_connection_that_drops_in_the_middle_is_an_error(start: Start):
    policy = load(start("openpi", fault="drop"))
    with pytest.raises(PolicyError, match="inference: the connection ended"):
        ask(policy)


def test_an_idle_connection_that_the_server_closed_is_opened_again_without_an_error(start: Start):
    """vLLM-Omni closes after 30 s."""
    peer = start("openpi")
    policy = load(peer)
    ask(policy)
    link = policy._connection._server._link
    peer.kill()
    peer.start()
    wait_until(lambda: link.state.name == "CLOSED", "the end of the old connection")
    ask(policy)


def test_a_server_that_never_says_hello_is_refused_within_the_time(start: Start):
    with pytest.raises(PolicyError, match=r"metadata: no answer within [01].\d s"):
        load(start("openpi", fault="no hello"), timeout_s=1.0)


def test_a_server_that_says_hello_too_late_is_refused_and_may_be_asked_again(start: Start):
    peer = start("openpi", fault="late hello")
    with pytest.raises(PolicyError, match=r"metadata: no answer within [01].\d s"):
        load(peer, timeout_s=1.0)
    np.testing.assert_array_equal(ask(load(peer))[0], STATE)


def test_a_hello_that_comes_too_late_after_a_restart_is_not_taken_for_an_answer(start: Start):
    peer = start("openpi")
    policy = load(peer, timeout_s=1.0)
    ask(policy)
    peer.kill()
    peer.start(fault="late hello")

    def find_problem() -> str:
        try:
            ask(policy)
        except PolicyError as error:
            return str(error)
        return "answered"

    wait_until(lambda: "metadata: no answer within" in find_problem(), "an attempt that takes too long")
    wait_until(lambda: answers(policy, STATE), "an answer after the late hello")


@pytest.mark.parametrize("wire", WIRES)
def test_nobody_at_the_address_is_refused_within_the_time(wire: str, start: Start):
    peer = start(wire)
    peer.kill()
    with pytest.raises(PolicyError, match=r"ping: no answer within 0\.5 s|cannot connect: .*refused"):
        load(peer, timeout_s=0.5)


@pytest.mark.parametrize(("wire", "message"), [("gr00t", "Unauthorized"), ("openpi", "HTTP status 401: the")])
def test_a_wrong_key_is_refused(wire: str, message: str, start: Start, tmp_path: Path):
    (tmp_path / "key").write_text("wrong")
    peer = start(wire, key="right")
    with pytest.raises(PolicyError, match=message) as caught:
        load(peer, tmp_path, api_key_file="key")
    assert "right" not in str(caught.value)
    with pytest.raises(DocumentError, match=r"api_key_file: .*none \(No such file"):
        load(peer, tmp_path, api_key_file="none")


@pytest.mark.parametrize("wire", WIRES)
def test_another_policy_after_a_restart_is_refused(wire: str, start: Start):
    """The fingerprint that robots got no longer holds."""
    peer = start(wire)
    policy = load(peer, timeout_s=2.0)
    ask(policy)
    peer.kill()
    assert not answers(policy, STATE)
    language = {"delta_indices": [0], "modality_keys": ["task"]}
    peer.start(revision=2, modalities={"language": language})

    def find_problem() -> str:
        try:
            ask(policy)
        except PolicyError as error:
            return str(error)
        return "answered"

    wait_until(lambda: "describes another policy" in find_problem(), "a refusal")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"images": {}}, r"images: found the keys \[\], expected those of the GR00T server at .*ego_view"),
        ({"state": entries(arm="shoulder")}, r"state: found the keys \['arm'\], expected"),
        ({"chunk_size": 16}, "modality action: found 20 steps, expected chunk_size 16"),
        ({"actions": entries(single_arm="a", gripper="a")}, "actions: found 'a' twice"),
    ],
)
def test_options_that_do_not_fit_a_gr00t_server_are_refused(
    options: dict[str, Any], message: str, start: Start
):
    with pytest.raises(PolicyError, match=message):
        load(start("gr00t"), **options)


def test_an_openpi_observation_has_one_entry_of_each_key(start: Start):
    image = {"key": "front", "inside": "prompt", "size": [24, 32]}
    with pytest.raises(PolicyError, match="state, images and prompt: found 'prompt' twice"):
        load(start("openpi"), images={FEATURE: image})


def test_a_gr00t_policy_that_sees_several_steps_is_refused(start: Start):
    video = {**GR00T_MODALITIES["video"], "delta_indices": [-2, 0]}
    with pytest.raises(PolicyError, match="modality video: found 2 steps, expected 1, as robots send"):
        load(start("gr00t", modalities={"video": video}))


def test_a_robot_would_add_the_state_twice_to_actions_that_gr00t_learned_as_differences(start: Start):
    configs = [
        {"rep": rep, "type": "NON_EEF", "format": "DEFAULT", "state_key": None}
        for rep in ("RELATIVE", "ABSOLUTE")
    ]
    action = {**GR00T_MODALITIES["action"], "action_configs": configs}
    policy = load(start("gr00t", modalities={"action": action}))
    *arm, gripper = policy.spec.action_names
    kinds = [*("relative_position" for _ in arm), "position"]
    offer = make_offer(
        state_names=policy.spec.state_names,
        action_names=(*arm, gripper),
        action_kinds=kinds,
        images=[ImageFeature(FEATURE, "jpeg")],
    )
    verdict = judge(offer, policy.spec, make_terms())
    assert (verdict.rejection, verdict.reason.partition(":")[0]) == (
        "kinds",
        f"action {arm[0]!r} is relative_position on the robot, "
        "position or velocity or effort or switch or pose in the policy",
    )
    assert gripper not in policy.spec.kinds


@pytest.mark.parametrize("configs", ["RELATIVE", [{}], [{}, {}, {}]])
def test_a_gr00t_server_that_describes_its_actions_otherwise_is_refused(configs: Any, start: Start):
    action = {**GR00T_MODALITIES["action"], "action_configs": configs}
    with pytest.raises(PolicyError, match=r"modality action: action_configs: found .* or one of each key"):
        load(start("gr00t", modalities={"action": action}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": {}}, "observation.images.camera: missing"),
        ({"images": {FEATURE: np.zeros((3, 24, 32), np.uint8)}}, r"found uint8 of shape \[3, 24, 32\]"),
        ({"state": np.zeros(3, np.float32)}, r"state: found shape \[3\], expected \[2\]"),
    ],
)
def test_an_observation_that_does_not_fit_is_not_sent(changes: dict[str, Any], message: str, start: Start):
    with pytest.raises(PolicyError, match=message):
        ask(load(start("openpi")), **changes)
