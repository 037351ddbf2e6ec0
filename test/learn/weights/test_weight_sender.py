# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A trainer and servers that come, go, lag and refuse; links between real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest
from weight_links import TRANSPORTS

from remote_inference.learn.weights import (
    Link,
    LinkClosedError,
    Reason,
    ReceiverLimits,
    SenderConfig,
    WeightSender,
    WeightsError,
    WeightSyncer,
)
from remote_inference.learn.weights.shared_memory import SLOT_BYTES, SharedMemoryListener, connect
from support.importable import python_path
from support.waiting import DEADLINE_S, wait_until
from support.weights.weight_models import Served, bits_of, change, make_model

KINDS = (("bfloat16", (60, 70)), ("float32", (500,)), ("bool", (40, 30)))
CONFIG = SenderConfig(bucket_size=1024, answer_s=DEADLINE_S)


@pytest.fixture
def served():
    servers: list[Served] = []

    def make(seed: int = 0, **options) -> Served:
        servers.append(Served(make_model(KINDS, seed), **options))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.fixture
def make_sender():
    senders: list[WeightSender] = []

    def make(model, config: SenderConfig = CONFIG) -> WeightSender:
        senders.append(WeightSender(lambda: model, config))
        return senders[-1]

    yield make
    for sender in senders:
        sender.close()


def test_servers_with_the_trainer_s_weights_are_sent_the_version_alone(served, make_sender):
    model, server = make_model(KINDS), served()
    sender = make_sender(model)
    sender.init_sender({"a": server.connect}, version=7)
    status = sender.wait(DEADLINE_S)["a"]
    assert (status.version, status.is_current, status.size, status.full_updates) == (7, True, 0, 0)
    assert server.receiver.version == 7


def test_patches_are_for_weights_and_not_for_what_a_server_calls_their_version(served, make_sender):
    model, server = make_model(KINDS), served()
    sender = make_sender(model)
    sender.init_sender({"a": server.connect}, version=7)
    change(model, 0.01, 8)
    sender.sync(8)
    status = sender.wait(DEADLINE_S)["a"]
    assert (status.version, status.is_current, status.full_updates) == (8, True, 0)
    assert bits_of(server.served) == bits_of(model)


def test_a_slow_server_delays_nobody_and_gets_there(served, make_sender):
    model, fast, slow = make_model(KINDS), served(1), served(2)
    sender = make_sender(model)
    slow.applies.clear()
    sender.init_sender({"slow": slow.connect, "fast": fast.connect})
    for version in range(2, 30):
        change(model, 0.01, version)
        sender.sync(version)
        wait_until(lambda: sender.statuses["fast"].version == version, f"the fast server has {version}")  # noqa: B023
    assert slow.receiver.version == 0
    assert not sender.statuses["slow"].is_current
    slow.applies.set()
    assert all(status.is_current for status in sender.wait(DEADLINE_S).values())
    assert bits_of(slow.served) == bits_of(fast.served) == bits_of(model)


def test_a_wait_that_ends_before_the_server_has_answered_says_so_and_nothing_of_the_sync_before(
    served, make_sender
):
    model, server = make_model(KINDS), served()
    sender = make_sender(model)
    sender.init_sender({"a": server.connect})
    assert sender.wait(DEADLINE_S)["a"].is_current
    server.applies.clear()
    change(model, 0.01, 2)
    sender.sync(2)
    for timeout_s in (0.0, 0.01):
        late = sender.wait(timeout_s)["a"]
        assert (late.is_current, late.reason) == (False, Reason.TRANSPORT)
        assert late.text == f"not served within {timeout_s:g} s"
    server.applies.set()
    assert sender.wait(DEADLINE_S)["a"].is_current


def test_a_link_that_is_not_made_in_time_says_how_long_that_was(make_sender):
    def connect() -> Link:
        raise TimeoutError("/server: no service within 9 s")

    with pytest.raises(WeightsError, match=r"^a: /server: no service within 9 s$") as caught:
        make_sender(make_model(KINDS)).init_sender({"a": connect})
    assert caught.value.reason is Reason.TRANSPORT


def test_a_server_that_joins_late_gets_everything(served, make_sender):
    model, first, late = make_model(KINDS), served(), served(5)
    sender = make_sender(model)
    sender.init_sender({"first": first.connect})
    change(model, 0.01, 1)
    sender.sync(2)
    sender.add_receiver("late", late.connect)
    assert sender.wait(DEADLINE_S)["late"].full_updates == 1
    assert bits_of(late.served) == bits_of(model)
    with pytest.raises(WeightsError, match="'late' is there already"):
        sender.add_receiver("late", late.connect)


def test_a_server_that_restarts_with_the_old_weights_gets_everything_at_the_next_sync(served, make_sender):
    model, servers = make_model(KINDS), [served()]
    sender = make_sender(model)
    sender.init_sender({"a": lambda: servers[-1].connect()})  # noqa: PLW0108  the last, when it is called
    for version in (2, 3):
        change(model, 0.01, version)
        sender.sync(version)
        assert sender.wait(DEADLINE_S)["a"].is_current
    servers[0].close()
    servers.append(served())
    change(model, 0.01, 4)
    sender.sync(4)
    assert sender.wait(DEADLINE_S)["a"].reason is Reason.TRANSPORT
    change(model, 0.01, 5)
    sender.sync(5)
    assert sender.wait(DEADLINE_S)["a"].is_current
    assert bits_of(servers[1].served) == bits_of(model)


def take_back(version, model, server, sender):
    """Let a trainer begin with 1 and send a version, which the server takes back."""
    sender.init_sender({"a": server.connect})
    sender.wait(DEADLINE_S)
    change(model, 0.01, 2)
    sender.sync(version)
    assert sender.wait(DEADLINE_S)["a"].is_current
    assert server.receiver.rollback() == 1


def test_after_a_rollback_the_trainer_is_told_and_the_next_sync_sends_everything(served, make_sender):
    model, server = make_model(KINDS), served()
    sender = make_sender(model)
    take_back(2, model, server, sender)
    change(model, 0.01, 3)
    sender.sync(3)
    assert sender.wait(DEADLINE_S)["a"].reason is Reason.BASE
    sender.sync(4)
    status = sender.wait(DEADLINE_S)["a"]
    assert (status.is_current, status.full_updates, status.version) == (True, 1, 4)
    assert bits_of(server.served) == bits_of(model)


def test_after_a_rollback_another_trainer_begins_above_all_that_was_served(served, make_sender):
    model, server = make_model(KINDS), served()
    first = make_sender(model)
    take_back(50, model, server, first)
    first.close()
    second = make_sender(model)
    second.init_sender({"a": server.connect})
    status = second.wait(DEADLINE_S)["a"]
    assert (status.is_current, status.version) == (True, 51)


def test_a_trainer_begins_above_all_that_any_of_its_servers_has_served(served, make_sender):
    """One was restarted, and is the first that answers."""
    model, restarted, old, away = make_model(KINDS), served(), served(version=7), []

    def fail() -> Link:
        away.append(1)
        raise LinkClosedError("away")

    sender = make_sender(model)
    sender.init_sender({"away": fail, "restarted": restarted.connect, "old": old.connect})
    statuses = sender.wait(DEADLINE_S)
    assert {name: (one.version, one.is_current) for name, one in statuses.items()} == {
        "away": (-1, False),
        "restarted": (8, True),
        "old": (8, True),
    }
    assert away


def test_a_server_that_has_served_a_higher_version_says_above_which_it_takes_one(served, make_sender):
    model, first, late = make_model(KINDS), served(), served(version=7)
    sender = make_sender(model)
    sender.init_sender({"first": first.connect})
    sender.add_receiver("late", late.connect)
    status = sender.wait(DEADLINE_S)["late"]
    assert status.reason is Reason.ORDER
    assert "expected one above 7" in status.text
    sender.sync(8)
    assert {one.version for one in sender.wait(DEADLINE_S).values()} == {8}


@pytest.mark.parametrize(("error", "reason"), [(MemoryError, Reason.MEMORY), (OSError, Reason.FAILED)])
def test_a_trainer_that_fails_at_one_server_says_so_and_tries_again(served, make_sender, error, reason):
    model, server, links = make_model(KINDS), served(), []

    def connect() -> Link:
        links.append(None)
        if len(links) <= 2:  # of the greeting, and of what follows it
            raise error("no room")
        return served_late.connect()

    served_late, sender = served(), make_sender(model)
    sender.init_sender({"a": server.connect, "b": connect})
    statuses = sender.wait(DEADLINE_S)
    assert statuses["a"].is_current
    assert statuses["b"].reason is reason
    sender.sync(2)
    assert all(status.is_current for status in sender.wait(DEADLINE_S).values())


def test_a_refused_update_is_named_and_mended_by_the_next(served, make_sender):
    model = make_model((("float32", (50, 60)),))
    model["layer_0.weight"].nan_to_num_(1.0, 2.0, 3.0)
    good = {name: tensor.clone() for name, tensor in model.items()}
    other = Served({name: tensor.clone() for name, tensor in model.items()}, allow_nonfinite=False)
    try:
        sender = make_sender(model)
        sender.init_sender({"a": other.connect})
        sender.wait(DEADLINE_S)
        model["layer_0.weight"][1, 2] = float("nan")
        sender.sync(2)
        status = sender.wait(DEADLINE_S)["a"]
        assert (status.reason, status.version) == (Reason.VALUES, 1)
        assert "a: update 2: layer_0.weight: found 1 values that are not finite" in status.text
        assert bits_of(other.served) == bits_of(good)
        model["layer_0.weight"][1, 2] = 5.0
        sender.sync(3)
        assert sender.wait(DEADLINE_S)["a"].is_current
        assert bits_of(other.served) == bits_of(model)
    finally:
        other.close()


def test_of_two_trainers_the_second_is_refused_until_the_first_has_gone(served, make_sender):
    model, server = make_model(KINDS), served()
    first, second = make_sender(model), make_sender(model)
    first.init_sender({"a": server.connect})
    first.wait(DEADLINE_S)
    with pytest.raises(WeightsError, match="which updates this server") as caught:
        second.init_sender({"a": server.connect}, version=9)
    assert caught.value.reason is Reason.CLAIMED
    first.close()
    second.init_sender({"a": server.connect}, version=9)
    assert second.wait(DEADLINE_S)["a"].is_current


def test_a_trainer_that_is_refused_leaves_no_link(served, make_sender):
    model, server = make_model(KINDS), served()
    make_sender(model).init_sender({"a": server.connect})
    link = server.connect()
    with pytest.raises(WeightsError, match="which updates this server"):
        make_sender(model).init_sender({"a": lambda: link})
    with pytest.raises(LinkClosedError):
        link.send(b"frame", DEADLINE_S)


def test_a_trainer_of_another_model_is_refused_at_once(served, make_sender):
    model = make_model((*KINDS, ("bool", (2,))))
    with pytest.raises(WeightsError, match="found it, expected nothing: the server's model is another"):
        make_sender(model).init_sender({"a": served().connect})


def test_a_server_of_another_model_is_refused_and_the_others_are_served(served, make_sender):
    model, server = make_model(KINDS), served(1)
    other = Served(make_model(KINDS[:2]))
    try:
        sender = make_sender(model)
        sender.init_sender({"a": server.connect, "other": other.connect})
        statuses = sender.wait(DEADLINE_S)
        assert statuses["a"].is_current
        assert statuses["other"].reason is Reason.ARCHITECTURE
    finally:
        other.close()


def test_a_version_that_does_not_rise_is_refused_by_the_trainer_s_own_side(served, make_sender):
    sender = make_sender(make_model(KINDS))
    with pytest.raises(WeightsError, match="expected init_sender first"):
        sender.sync(2)
    sender.init_sender({"a": served().connect}, version=3)
    with pytest.raises(WeightsError, match="found version 3, expected one above 3"):
        sender.sync(3)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (SenderConfig(strategy="all"), "strategy: found"),
        (SenderConfig(bucket_size=7), "bucket_size: found 7, expected 1024 to"),
        (SenderConfig(bucket_dtype="bfloat16"), "with strategy 'patch'"),
        (SenderConfig("bucket", bucket_dtype="int8"), "expected a floating-point type"),
        (SenderConfig(compression="zstdd"), "did you mean 'zstd'"),
    ],
)
def test_a_config_that_cannot_be_is_refused(config: SenderConfig, words: str):
    with pytest.raises(WeightsError, match=words):
        WeightSender(dict, config)


def test_a_syncer_is_one_end():
    syncer = WeightSyncer()
    for verb in (syncer.apply, lambda: syncer.sync(1)):
        with pytest.raises(WeightsError, match="first"):
            verb()
    syncer.init_receiver(make_model(KINDS))
    try:
        with pytest.raises(WeightsError, match="another WeightSyncer"):
            syncer.init_receiver(make_model(KINDS))
    finally:
        syncer.close()


# -- links ---------------------------------------------------------------------------------------------------


@pytest.fixture(params=TRANSPORTS)
def ends(request: pytest.FixtureRequest):
    first, second = TRANSPORTS[request.param]()
    yield first, second
    first.close()
    second.close()


@pytest.mark.parametrize("size", [1, 100, SLOT_BYTES, SLOT_BYTES + 1, 3 * SLOT_BYTES + 7])
def test_frames_arrive_whole_and_in_order_both_ways(ends, size: int):
    frames = [bytes([number]) * size for number in (1, 2)]
    for here, there in (ends, ends[::-1]):
        for frame in frames[: 1 if size > SLOT_BYTES else 2]:
            here.send(frame, DEADLINE_S)
            assert there.receive(DEADLINE_S) == frame


def send_many(end: Link) -> None:
    for _ in range(100):
        end.send(b"x" * 100, 0.01)


def test_a_link_says_when_nothing_comes_and_when_nothing_is_taken(ends):
    here, _ = ends
    with pytest.raises(TimeoutError):
        here.receive(0.0)
    with pytest.raises(TimeoutError):
        here.receive(0.01)
    with pytest.raises(TimeoutError):
        send_many(here)


def test_a_closed_link_says_so_on_both_ends(ends):
    here, _ = ends
    here.close()
    for end in ends:
        with pytest.raises(LinkClosedError):
            end.receive(DEADLINE_S)
        with pytest.raises(LinkClosedError):
            send_many(end)


TRAINER_PROCESS = dedent(
    """
    import sys, time
    from pathlib import Path
    from support.weights.weight_models import change, make_model
    from remote_inference.learn.weights import SenderConfig, WeightSender
    from remote_inference.learn.weights.shared_memory import connect
    model = make_model((("bfloat16", (300, 400)), ("float32", (500,))))
    sender = WeightSender(lambda: model, SenderConfig(bucket_size=1024))
    sender.init_sender({"a": lambda: connect(Path(sys.argv[1]), 30.0)}, version=1)
    for version in range(2, int(sys.argv[2])):
        change(model, 0.01, version)
        sender.sync(version)
        print(version, sender.wait(30.0)["a"].is_current, flush=True)
    sender.close()
    """
)


def run_trainer(path: Path, versions: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", TRAINER_PROCESS, str(path), str(versions)]
    environment = {**os.environ, "PYTHONPATH": python_path()}
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


@pytest.fixture
def listening(tmp_path: Path):
    """A server that listens in a socket's file, applied to by the test."""
    path, kinds = tmp_path / "weights.sock", (("bfloat16", (300, 400)), ("float32", (500,)))
    listener, model = SharedMemoryListener(path), make_model(kinds, seed=1)
    syncer = WeightSyncer(limits=ReceiverLimits(allow_nonfinite=True))
    syncer.init_receiver(model, listener.accept)
    yield path, syncer, model
    syncer.close()
    listener.close()


def test_a_trainer_in_another_process_updates_a_server_through_shared_memory(listening):
    path, syncer, model = listening
    expected = make_model((("bfloat16", (300, 400)), ("float32", (500,))))
    for version in range(2, 6):
        change(expected, 0.01, version)
    with run_trainer(path, 6) as trainer:
        wait_until(lambda: syncer.apply() == 5, "version 5 is applied")
        assert trainer.wait(DEADLINE_S) == 0
    assert bits_of(model) == bits_of(expected)
    assert not list(Path("/dev/shm").glob("*weights*"))


def test_a_trainer_that_is_killed_leaves_a_whole_version_and_its_place(listening):
    path, syncer, model = listening
    with run_trainer(path, 10_000) as trainer:
        wait_until(lambda: syncer.apply() >= 5, "some versions are applied")
        trainer.kill()
    wait_until(lambda: syncer.receiver.state.name == "IDLE" or syncer.apply() < 0, "the place is free")
    version = syncer.apply()
    expected = make_model((("bfloat16", (300, 400)), ("float32", (500,))))
    for number in range(2, version + 1):
        change(expected, 0.01, number)
    assert bits_of(model) == bits_of(expected)
    with run_trainer(path, 3):
        wait_until(lambda: syncer.receiver.refusals[Reason.ORDER] > 0, "the next trainer is heard")


def test_nobody_listening_is_said(tmp_path: Path):
    with pytest.raises(LinkClosedError, match="nobody listens"):
        connect(tmp_path / "none.sock", 1.0)


def test_a_stranger_on_the_socket_costs_nothing(listening):
    path, syncer, _ = listening
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
        stranger.connect(str(path))
        with suppress(OSError):
            stranger.send(b"hello")
    with run_trainer(path, 3) as trainer:
        wait_until(lambda: syncer.apply() == 2, "version 2 is applied")
        assert trainer.wait(DEADLINE_S) == 0
