# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Messages that a real router drops: nobody speaks, hears, calls or serves in another's place."""

from __future__ import annotations

import pytest
import zenoh
from keys_rig import FleetRig, Inbox, ask, ask_until, put_until, token, topic
from router_topics import (
    CHUNK_1,
    LINK_1,
    OBSERVATION_1,
    OPEN_1,
    REPLIES_1,
    RESET_1,
    ROBOT_1,
    ROBOT_2,
    ROBOT_TOPICS,
    WEIGHTS_1,
    advanced_publisher,
    advanced_subscriber,
    answers,
    declare_querier,
    tokens_for,
)

from support.waiting import wait_until


@pytest.mark.parametrize("mode", ["client", "router"])
@pytest.mark.parametrize(
    ("victim", "key"),
    [
        *(("robot_2", topic(f"robot_2/remote_inference/{name}")) for name in ROBOT_TOPICS),
        *(("robot_10", topic(f"robot_10/remote_inference/{name}")) for name in ROBOT_TOPICS),
        ("robot_2", topic("*/remote_inference/observation")),
        ("robot_2", topic("robot_2/remote_inference/state") + "/@adv/pub/c0ffee/1/_"),
    ],
)
def test_a_robot_cannot_publish_as_another(rig: FleetRig, mode: str, victim: str, key: str):
    server = {"robot_2": "gpu_1", "robot_10": "gpu_2"}[victim]
    inbox = Inbox(rig.connect(server)).subscribe(
        *(topic(f"{victim}/remote_inference/{name}") for name in ROBOT_TOPICS),
        topic(f"{victim}/remote_inference/state") + "/@adv/pub/**",
    )
    marked = Inbox(rig.connect("gpu_1")).subscribe(OBSERVATION_1)
    owner, attacker = rig.connect(victim), rig.connect("robot_1", mode)
    put_until(owner, topic(f"{victim}/remote_inference/observation"), "ready", inbox)
    attacker.put(key, "forged")
    attacker.delete(key)
    put_until(attacker, OBSERVATION_1, "marker", marked)
    assert not forged(put_until(owner, topic(f"{victim}/remote_inference/observation"), "marker", inbox))


@pytest.mark.parametrize(
    ("attacker", "victim", "key", "marker"),
    [
        ("robot_1", "robot_2", topic("robot_2/remote_inference/chunk"), OBSERVATION_1),
        ("robot_1", "robot_2", topic("gpu_1/status"), OBSERVATION_1),
        ("gpu_2", "robot_1", CHUNK_1, topic("robot_10/remote_inference/chunk")),
        ("alice", "robot_1", CHUNK_1, ""),
        ("trainer_1", "robot_1", CHUNK_1, topic("trainer_1/weights")),
        ("trainer_1", "robot_1", topic("gpu_1/status"), topic("trainer_1/weights")),
    ],
)
def test_only_its_server_speaks_to_a_robot(rig: FleetRig, attacker: str, victim: str, key: str, marker: str):
    inbox = Inbox(rig.connect(victim)).subscribe(key)
    owner = rig.connect("gpu_1")
    put_until(owner, key, "ready", inbox)
    session = rig.connect(attacker)
    session.put(key, "forged")
    if marker:  # an allowed message follows the denied one, and arrives
        reader = {"robot_1": "gpu_1", "gpu_2": "robot_10", "trainer_1": "gpu_1"}[attacker]
        put_until(session, marker, "marker", Inbox(rig.connect(reader)).subscribe(marker))
    else:
        ask_until_served(rig, session)
    assert not forged(put_until(owner, key, "marker", inbox))


@pytest.mark.parametrize("mode", ["client", "router"])
@pytest.mark.parametrize(
    ("attacker", "marker"), [("robot_1", OBSERVATION_1), ("gpu_2", topic("robot_10/remote_inference/chunk"))]
)
def test_only_its_trainers_send_weights_to_a_server(rig: FleetRig, mode: str, attacker: str, marker: str):
    inbox = Inbox(rig.connect("gpu_1")).subscribe(WEIGHTS_1, WEIGHTS_1 + "/@adv/pub/**")
    owner = rig.connect("trainer_1")
    put_until(owner, WEIGHTS_1, "ready", inbox)
    session = rig.connect(attacker, mode)
    session.put(WEIGHTS_1, "forged")
    reader = {"robot_1": "gpu_1", "gpu_2": "robot_10"}[attacker]
    put_until(session, marker, "marker", Inbox(rig.connect(reader)).subscribe(marker))
    assert not forged(put_until(owner, WEIGHTS_1, "marker", inbox))


def test_a_trainer_sends_no_weights_to_a_server_that_is_not_its_own(rig: FleetRig):
    key, observation = topic("gpu_2/weights"), topic("robot_10/remote_inference/observation")
    inbox = Inbox(rig.connect("gpu_2")).subscribe(key, observation)
    own = Inbox(rig.connect("gpu_1")).subscribe(WEIGHTS_1)
    robot, session = rig.connect("robot_10"), rig.connect("trainer_1")
    put_until(robot, observation, "ready", inbox)
    put_until(session, WEIGHTS_1, "ready", own)
    session.put(key, "forged")
    put_until(session, WEIGHTS_1, "marker", own)
    put_until(robot, observation, "marker", inbox)
    assert not forged(inbox.got)


@pytest.mark.parametrize(
    ("caller", "reader", "marker"),
    [
        ("robot_1", "gpu_1", OBSERVATION_1),
        ("gpu_2", "robot_10", topic("robot_10/remote_inference/chunk")),
    ],
)
def test_only_its_trainers_open_links_to_a_server(rig: FleetRig, caller: str, reader: str, marker: str):
    server, trainer = Inbox(rig.connect("gpu_1")).serve(LINK_1), rig.connect("trainer_1")
    session, marked = rig.connect(caller), Inbox(rig.connect(reader)).subscribe(marker)
    assert ask_until(trainer, LINK_1, "ready") == ["ok"]
    put_until(session, marker, "ready", marked)
    assert ask(session, LINK_1, "forged", timeout_s=1.0) == []
    put_until(session, marker, "marker", marked)
    ask_until(trainer, LINK_1, "marker")
    assert not forged(server.got)


@pytest.mark.parametrize(
    "name",
    ["gpu_1/rollback_weights", "gpu_1/change_state", "gpu_1/open_session", "robot_1/remote_inference/pause"],
)
def test_a_trainer_calls_nothing_but_its_link(rig: FleetRig, name: str):
    """To take an update back is for operators: a trainer sends another one."""
    check_that_a_call_is_stopped(rig, name, rig.connect("trainer_1"), allowed=LINK_1)


def test_a_robot_hears_no_weights(rig: FleetRig):
    spy = Inbox(rig.connect("robot_1")).subscribe("**", WEIGHTS_1, REPLIES_1, CHUNK_1)
    server, trainer = rig.connect("gpu_1"), rig.connect("trainer_1")
    put_until(server, CHUNK_1, "ready", spy)
    put_until(trainer, WEIGHTS_1, "secret", Inbox(server).subscribe(WEIGHTS_1))
    put_until(server, REPLIES_1, "secret", Inbox(trainer).subscribe(REPLIES_1))
    assert not any("secret" in item for item in put_until(server, CHUNK_1, "marker", spy))


@pytest.mark.parametrize("mode", ["client", "router"])
@pytest.mark.parametrize("pattern", ["**", "0/**", topic("robot_2/remote_inference/chunk"), "*/robot_2/**"])
def test_a_robot_hears_nothing_of_another(rig: FleetRig, mode: str, pattern: str):
    spy = Inbox(rig.connect("robot_1", mode)).subscribe(pattern, CHUNK_1)
    server, victim = rig.connect("gpu_1"), rig.connect("robot_2")
    put_until(server, CHUNK_1, "ready", spy)
    for name in ROBOT_TOPICS:
        key = topic(f"robot_2/remote_inference/{name}")
        put_until(victim, key, "secret", Inbox(server).subscribe(key))
    other = topic("robot_2/remote_inference/chunk")
    put_until(server, other, "secret", Inbox(victim).subscribe(other))
    assert not any("secret" in item for item in put_until(server, CHUNK_1, "marker", spy))


def test_a_server_hears_nothing_of_a_robot_that_is_not_its_own(rig: FleetRig):
    key = topic("robot_10/remote_inference/observation")
    spy = Inbox(rig.connect("gpu_1")).subscribe(
        "**", "*/*/remote_inference/observation/**", key, OBSERVATION_1
    )
    put_until(rig.connect("robot_10"), key, "secret", Inbox(rig.connect("gpu_2")).subscribe(key))
    assert not any(
        "secret" in item for item in put_until(rig.connect("robot_1"), OBSERVATION_1, "marker", spy)
    )


def test_a_late_spy_gets_no_latched_state(rig: FleetRig):
    key = topic("robot_2/remote_inference/state")
    latched = advanced_publisher(rig.connect("robot_2"), key)
    latched.put("secret")
    spied, seen = list[str](), list[str]()
    reading = advanced_subscriber(rig.connect("alice"), key, seen)
    wait_until(lambda: seen == ["secret"], "the operator's copy")
    server, spy = rig.connect("gpu_1"), rig.connect("robot_1")
    Inbox(server).serve(OPEN_1)
    marked = Inbox(spy).subscribe(CHUNK_1)
    put_until(server, CHUNK_1, "ready", marked)
    assert ask_until(spy, OPEN_1) == ["ok"]
    spying = advanced_subscriber(spy, key, spied)
    for cache in (key + "/@adv/**", "**/@adv/**"):
        assert ask(spy, cache, timeout_s=1.0, target=zenoh.QueryTarget.ALL) == []
    put_until(server, CHUNK_1, "marker", marked)
    assert spied == []
    spying.undeclare()
    reading.undeclare()


@pytest.mark.parametrize("mode", ["client", "router"])
@pytest.mark.parametrize(
    "name",
    [
        "robot_2/remote_inference/pause",
        "robot_10/remote_inference/pause",
        "gpu_1/change_state",
        "gpu_1/set_parameters",
        "gpu_1/rollback_weights",
        "gpu_1/open_weights_link",
        "gpu_2/open_session",
    ],
)
def test_a_robot_cannot_call_services_that_are_not_its_own(rig: FleetRig, mode: str, name: str):
    check_that_a_call_is_stopped(rig, name, rig.connect("robot_1", mode), allowed=OPEN_1)


@pytest.mark.parametrize("mode", ["client", "router"])
@pytest.mark.parametrize(
    "name", ["robot_2/remote_inference/pause", "gpu_1/change_state", "gpu_2/open_session"]
)
def test_a_robot_s_querier_reaches_no_service_that_is_not_its_own(rig: FleetRig, mode: str, name: str):
    key = topic(name, "srv")
    victim = Inbox(rig.connect(name.split("/", maxsplit=1)[0])).serve(key)
    Inbox(rig.connect("gpu_1")).serve(OPEN_1)
    attacker, operator = rig.connect("robot_1", mode), rig.connect("alice")
    ask_until(operator, key, "ready")
    forging, allowed = declare_querier(attacker, key), declare_querier(attacker, OPEN_1)
    wait_until(lambda: answers(allowed) == ["ok"], "an answer from a service that it may call")
    assert answers(forging, "forged") == []
    ask_until(operator, key, "marker")
    assert not forged(victim.got)


def test_a_server_cannot_call_a_robot_s_services(rig: FleetRig):
    victim, server = Inbox(rig.connect("robot_1")).serve(RESET_1), rig.connect("gpu_1")
    operator, marked = rig.connect("alice"), Inbox(victim.session).subscribe(CHUNK_1)
    ask_until(operator, RESET_1, "ready")
    put_until(server, CHUNK_1, "ready", marked)
    server.get(RESET_1, payload="forged", timeout=2.0)
    put_until(server, CHUNK_1, "marker", marked)
    ask_until(operator, RESET_1, "marker")
    assert not forged(victim.got)


@pytest.mark.parametrize("mode", ["client", "router"])
@pytest.mark.parametrize(
    "pattern", ["**", OPEN_1, "*/gpu_1/**", topic("robot_2/remote_inference/pause", "srv")]
)
def test_a_robot_cannot_serve_for_another(rig: FleetRig, mode: str, pattern: str):
    attacker = Inbox(rig.connect("robot_1", mode)).serve(pattern, answer="forged")
    put_until(attacker.session, OBSERVATION_1, "marker", Inbox(rig.connect("gpu_1")).subscribe(OBSERVATION_1))
    pause = topic("robot_2/remote_inference/pause", "srv")
    Inbox(rig.connect("gpu_1")).serve(OPEN_1)
    victim = Inbox(rig.connect("robot_2")).serve(pause)
    assert ask_until(victim.session, OPEN_1) == ["ok"]
    assert ask_until(rig.connect("alice"), pause) == ["ok"]
    for _ in range(3):  # a query for one server only must not end at the attacker
        assert ask(victim.session, OPEN_1, target=zenoh.QueryTarget.BEST_MATCHING) == ["ok"]
    assert attacker.got == []


def test_a_robot_cannot_answer_in_another_s_name(rig: FleetRig):
    robot = rig.connect("robot_1")
    victim = topic("robot_2/remote_inference/reset", "srv")

    def answer(query: zenoh.Query) -> None:
        query.reply(victim, "forged")
        query.reply(RESET_1, "ok")

    served = robot.declare_queryable(RESET_1, answer)
    operator = rig.connect("alice")
    answers: list[str] = []

    def answered() -> bool:
        replies = operator.get(f"{RESET_1}?_anyke", timeout=2.0)
        answers[:] = [reply.ok.payload.to_string() for reply in replies if reply.ok]
        return bool(answers)

    wait_until(answered, "an answer")
    assert answers == ["ok"]
    served.undeclare()


FORGED_TOKENS = [
    token("NN", ROBOT_2),
    token("NN", "/robot_10/remote_inference"),
    token("NN", "/robot_1/sub/remote_inference"),
    token("NN", "/robot_1/another"),
    token("NN", "/gpu_1"),
    token("NN", "/robot_1"),
    token("MP", ROBOT_2, f"{ROBOT_2}/observation"),
    token("MP", ROBOT_1, f"{ROBOT_2}/observation"),
    token("MP", ROBOT_1, f"{ROBOT_2}/chunk"),
    token("MS", ROBOT_1, f"{ROBOT_2}/observation"),
    token("MP", ROBOT_1, "/gpu_1/status"),
    token("SS", ROBOT_1, "/gpu_1/open_session"),
    token("SS", "/gpu_1", "/gpu_1/open_session"),
    token("SS", ROBOT_1, f"{ROBOT_2}/reset"),
    token("SC", ROBOT_1, "/gpu_1/change_state"),
    "@ros2_lv/0/c0ffee/0/1/MP/%/%robot_1/remote_inference/%robot_10%remote_inference%observation/T/H/Q",
    "@ros2_lv/0/c0ffee/0/1/NN/%/%robot_1/%/%robot_2/remote_inference",
    topic("robot_2/remote_inference/state") + "/@adv/pub/c0ffee/1/_",
]


@pytest.mark.parametrize("mode", ["client", "router"])
def test_a_robot_cannot_claim_another_s_names(rig: FleetRig, mode: str):
    watches = [Inbox(rig.connect(name)).watch_tokens() for name in ("gpu_1", "robot_2", "alice")]
    server, victim, operator = watches
    operator.watch_tokens(topic("robot_2/remote_inference/state") + "/@adv/pub/**")
    attacker = Inbox(rig.connect("robot_1", mode)).show(*FORGED_TOKENS, token("NN", ROBOT_1))
    for watch in (server, operator):
        watch.wait_for(token("NN", ROBOT_1))
    Inbox(server.session).show(token("NN", "/gpu_1").replace("c0ffee", "beef"))
    victim.wait_for(token("NN", "/gpu_1").replace("c0ffee", "beef"))
    seen = [item for watch in watches for item in watch.got]
    assert not set(FORGED_TOKENS) & set(seen)
    assert attacker.got == []


@pytest.mark.parametrize("mode", ["client", "router"])
def test_a_robot_sees_no_token_of_another(rig: FleetRig, mode: str):
    secrets = [
        token("NN", ROBOT_2),
        token("MP", ROBOT_2, f"{ROBOT_2}/observation"),
        token("SC", ROBOT_2, "/gpu_1/open_session"),
    ]
    of_server = token("MP", "/gpu_1", f"{ROBOT_2}/chunk")
    server = Inbox(rig.connect("gpu_1")).watch_tokens().show(of_server)
    spy = Inbox(rig.connect("robot_1", mode)).watch_tokens()
    Inbox(rig.connect("robot_2")).show(*secrets)
    wait_until(lambda: set(secrets) <= set(server.got), "robot_2's tokens at its server")
    server.show(token("NN", "/gpu_1"))
    assert spy.wait_for(token("NN", "/gpu_1")) == [token("NN", "/gpu_1")]
    wait_until(lambda: tokens_for(spy.session) == {token("NN", "/gpu_1")}, "the server's token on request")


@pytest.mark.parametrize("name", ["robot_1", "gpu_1", "alice"])
def test_no_member_reads_the_router_s_administration_space(rig: FleetRig, name: str):
    session = rig.connect(name)
    (router,) = session.info.routers_zid()
    for rest in ("**", "router", "*/config/**"):
        assert ask(session, f"@/{router}/{rest}", timeout_s=1.0, target=zenoh.QueryTarget.ALL) == []


@pytest.mark.parametrize("name", ["rosout", "parameter_events", "diagnostics", "robot_1/joint_states"])
def test_topics_that_all_nodes_share_stay_on_their_machine(rig: FleetRig, name: str):
    key = topic(name)
    inboxes = [Inbox(rig.connect(reader)).subscribe(key) for reader in ("gpu_1", "alice")]
    inboxes[0].subscribe(OBSERVATION_1)
    robot = rig.connect("robot_1")
    put_until(robot, OBSERVATION_1, "ready", inboxes[0])
    robot.put(key, "local")
    put_until(robot, OBSERVATION_1, "marker", inboxes[0])
    assert not any("local" in item for inbox in inboxes for item in inbox.got)


def check_that_a_call_is_stopped(rig: FleetRig, name: str, attacker: zenoh.Session, *, allowed: str) -> None:
    """Let somebody call a service in several ways; it hears operators, and the other one the attacker."""
    key = topic(name, "srv")
    victim = Inbox(rig.connect(name.split("/", maxsplit=1)[0])).serve(key)
    Inbox(rig.connect("gpu_1")).serve(allowed)
    operator = rig.connect("alice")
    ask_until(operator, key, "ready")
    ask_until(attacker, allowed)
    for selector in (key, "**", f"*/{name}/**"):
        attacker.get(selector, payload="forged", timeout=2.0)
    ask_until(attacker, allowed)
    ask_until(operator, key, "marker")
    assert not forged(victim.got)


def forged(items: list[str]) -> list[str]:
    return [item for item in items if "forged" in item or " " not in item]  # a deletion has no payload


def ask_until_served(rig: FleetRig, operator: zenoh.Session) -> None:
    Inbox(rig.connect("gpu_1")).serve(OPEN_1)
    ask_until(operator, OPEN_1)
