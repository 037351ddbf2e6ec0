# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Verbs that play in simulators: `rollouts`, `hud` and `hud-agent`."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from remote_inference.base.errors import UserError
from remote_inference.base.stop_signals import common_signals
from remote_inference.tools.cli.common import (
    EXIT_NO,
    EXIT_OK,
    Arguments,
    VerbParser,
    bounded,
    open_client,
    print_json,
    say,
)

if TYPE_CHECKING:
    from rich.progress import Progress

    from remote_inference.base.policy import Policy
    from remote_inference.learn.rollouts import Transport
    from remote_inference.learn.rollouts.group import Group
    from remote_inference.learn.rollouts.pool import Isolation

EXAMPLES = {
    "rollouts": (
        "--group 8 --environment belt_arm --seed 7",
        "--environment belt_arm --temperature 3 --parquet group.parquet",
        "--environment belt_arm --on ray://gpu_2:10001 --group 8 --seed 7",
        "--environment my_package.shed:Shed --policy shed.manifest.yaml --json",
    ),
    "hud": (
        "belt_arm",
        "belt_arm --real-time --port 9091",
        "gymnasium:gym_pusht:gym_pusht/PushT-v0 --option mapping=pusht.yaml",
    ),
    "hud_agent": (
        "127.0.0.1:41035 --server /policy_server",
        "127.0.0.1:41035 --server gpu_1 --episodes 10 --rename front=images.top",
    ),
}
NAMES = "built-in name, gymnasium:<id>, package.module:attribute, or the name of an entry point"
SHIPPED = "belt_arm_flow"  # draws its chunks, so that rollouts differ
TIMEOUT_S = 30.0  # of a policy's answers to `hud-agent`


def add_option_argument(parser: VerbParser) -> None:
    """Declare `--option`, whose texts `read_options` reads."""
    text = "option of the environment, its value as JSON or text; may be given several times"
    parser.add("--option KEY=VALUE", text, dest="options", action="append", default=[])


def read_options(texts: list[str]) -> dict[str, object]:
    """Return options by name. Raises UserError for one without a name or a value."""
    options: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UserError(f"--option: found {text!r}, expected KEY=VALUE")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options


def add_rollouts(parser: VerbParser) -> None:
    add = parser.add
    add("--environment", NAMES, required=True)
    text = "ray://HOST:PORT of a Ray cluster for the simulators, or auto for this machine's (default none)"
    add("--on ADDRESS", text, default="")
    add_option_argument(parser)
    count = bounded(int, lambda value: value >= 1, "1 or more")
    scale = bounded(float, lambda value: value >= 0.0, "0 or more")
    add("--group", "rollouts, each in a process (default 8)", type=count, default=8)
    add("--seed", "of the environments and of the noise (default 0)", type=int, default=0)
    add("--task", "instruction (default the environment's first)", default="")
    text = f"manifest of the policy, which runs in this process (default the shipped {SHIPPED})"
    add("--policy MANIFEST", text)
    add("--temperature", "scale of the noise that the policy draws (default 1)", type=scale, default=1.0)
    add("--execution-horizon ROWS", "rows executed of each chunk (default all)", type=count)
    add("--max-steps", "of each rollout (default the environment's limit)", type=count)
    add("--film-strip FILE", "picture of the rollouts (default rollouts.png)", default=Path("rollouts.png"))
    add("--parquet FILE", "write a table, a row per control tick")
    add("--lerobot-v3 FOLDER", "write a data set, an episode per rollout")
    parser.add_output('{"group", "isolation", "wall_s", "film_strip"}')


def run_rollouts(arguments: Arguments) -> int:
    from remote_inference.learn.rollouts import film_strip, saving  # noqa: PLC0415  numpy, pyarrow and Pillow

    for path in (arguments.parquet, arguments.lerobot_v3):
        if path is not None:
            saving.require_new(path)
    transport = _make_transport(arguments)
    with closing(_load_policy(arguments)) as policy:
        begin_s = time.monotonic()
        group, isolation = asyncio.run(_play(arguments, transport, policy))
        wall_s = time.monotonic() - begin_s
    if arguments.parquet:
        saving.save_parquet(group, arguments.parquet)
    if arguments.lerobot_v3:
        saving.save_lerobot(group, arguments.lerobot_v3)
    camera = film_strip.find_camera(group)
    if camera is not None:
        film_strip.draw_film_strip(group, camera, arguments.film_strip)
    if arguments.json:
        proof = vars(isolation) | {"is_proven": isolation.is_proven}
        picture = str(arguments.film_strip) if camera else None
        said = {"group": saving.describe(group), "isolation": proof}
        print_json({**said, "wall_s": wall_s, "film_strip": picture})
    elif not arguments.quiet:
        _print_group(group, isolation, wall_s)
        say(f"film strip: {arguments.film_strip}" if camera else "no film strip: the policy sees no camera")
    return EXIT_OK if isolation.is_proven else EXIT_NO


async def _play(arguments: Arguments, transport: Transport, policy: Policy) -> tuple[Group, Isolation]:
    from remote_inference.learn.rollouts import LocalPolicy, RolloutPool  # noqa: PLC0415
    from remote_inference.learn.rollouts.pool import prove_isolation  # noqa: PLC0415

    asked = LocalPolicy(policy)
    try:
        async with RolloutPool(transport, arguments.group) as pool:
            limit = arguments.max_steps or round(pool.spec.episode_limit_s * pool.spec.control_rate_hz)
            with arguments.show_bars() as bars:
                group = await pool.run_group(
                    asked,
                    seed=arguments.seed,
                    task=arguments.task,
                    temperature=arguments.temperature,
                    execution_horizon=arguments.execution_horizon,
                    max_steps=arguments.max_steps,
                    keep_observations=True,
                    progress=_bar_of_each_rollout(bars, arguments.group, limit) if bars else None,
                )
            return group, await prove_isolation(pool, group)
    finally:
        asked.close()


def _make_transport(arguments: Arguments) -> Transport:
    """Return the way to the simulators; none is started yet."""
    from remote_inference.learn.rollouts import LocalTransport, RayTransport  # noqa: PLC0415

    options = read_options(arguments.options)
    if arguments.on:
        return RayTransport(arguments.on, arguments.environment, options)
    return LocalTransport.of(arguments.environment, options, arguments.group)


def _load_policy(arguments: Arguments) -> Policy:
    from remote_inference.base.paths import share_path  # noqa: PLC0415
    from remote_inference.server.manifest.manifest import ModelSource, load_manifest  # noqa: PLC0415
    from remote_inference.server.policies import load_policy  # noqa: PLC0415

    if arguments.policy:
        return load_policy(load_manifest(arguments.policy).model)
    shipped = share_path("config", "models", SHIPPED)
    return load_policy(ModelSource(backend="chunk_network", path=str(shipped)))


def _bar_of_each_rollout(bars: Progress, count: int, limit: int) -> Callable[[int, int], None]:
    """Return what takes a rollout and its steps."""
    tasks = [bars.add_task(f"steps of rollout {number}", total=limit) for number in range(count)]
    return lambda rollout, steps: bars.update(tasks[rollout], completed=steps)


def _print_group(group: Group, isolation: Isolation, wall_s: float) -> None:
    from remote_inference.tools.tables import Table, print_table  # noqa: PLC0415

    rows = []
    for number, (one, advantage) in enumerate(zip(group.trajectories, group.advantages, strict=True)):
        cells: tuple[Any, ...] = (number, one.slot, one.process_id, len(one), len(one.chunks))
        outcome = "yes" if one.is_success else "no"
        rows.append((*map(str, cells), outcome, f"{one.total_reward:.3g}", f"{advantage:+.2f}"))
    numbers = ("rollout", "slot", "process", "steps", "chunks", "reward", "advantage")
    print_table(Table("", (*numbers[:5], "success", *numbers[5:]), rows, numbers))
    say(f"{group.environment.name}, {group.task!r}, seed {group.seed}: {_judge(group)}")
    say(f"policy version {', '.join(group.policy_versions)}{' (mixed)' if group.is_mixed else ''}")
    say(
        f"isolation: {isolation.processes} processes; {isolation.repeated} of {isolation.rollouts} rollouts "
        "came out equal, bit for bit, when repeated in another slot"
    )
    say(f"{wall_s:.1f} s in all, {sum(map(len, group.trajectories))} steps")


def _judge(group: Group) -> str:
    said = f"{group.successes.sum()} of {len(group)} succeeded, {group.distinct} different rollouts"
    if group.distinct == 1 and len(group) > 1:
        return f"{said}: the policy draws nothing"
    return f"{said}; all rewards are equal, so there are no advantages" if group.is_degenerate else said


def add_hud(parser: VerbParser) -> None:
    parser.add("environment", NAMES)
    add_option_argument(parser)
    text = "run the environment on its own clock and take chunks; left out, it waits for each action"
    parser.add("--real-time", text)
    parser.add("--host", "address to listen on; default: 127.0.0.1", default="127.0.0.1")
    parser.add("--port", "port of the WebSocket; default: any free one", type=int, default=0)
    parser.add("--control-port", "port of the control channel; as --port", type=int, default=0)


def run_hud(arguments: Arguments) -> None:
    from remote_inference.learn.environments import make_environment  # noqa: PLC0415  may import a simulator
    from remote_inference.learn.environments.runners import ThreadEnvironment  # noqa: PLC0415
    from remote_inference.learn.hud.episode import HudEnvironment  # noqa: PLC0415
    from remote_inference.learn.hud.server import PORT_ANNOUNCEMENT, HudServer  # noqa: PLC0415

    name, options = arguments.environment, read_options(arguments.options)
    server = HudServer(
        lambda: HudEnvironment(ThreadEnvironment(name, lambda: make_environment(name, options))),
        real_time=arguments.real_time,
        host=arguments.host,
    )

    def announce(control_port: int) -> None:
        say(f"{name} at {server.url}", file=sys.stderr)
        say(f"{PORT_ANNOUNCEMENT}{control_port}")

    async def serve() -> None:
        stop = asyncio.Event()
        for number in common_signals():
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await server.run(announce, stop, arguments.port, arguments.control_port)

    asyncio.run(serve())


def add_hud_agent(parser: VerbParser) -> None:
    add = parser.add
    add("control", "HOST:PORT of the bridge's control channel, as after HUD_SIM_PORT=")
    add("--server", "policy server whose chunks are played", required=True)
    add("--episodes", "to play, one after another (default 1)", type=int, default=1)
    add("--task TASK", "given to the bridge's reset, if given")
    add("--seed", "given to the bridge's reset, if given; one more each episode", type=int)
    text = "policy's name for a camera of the bridge; may be given several times"
    add("--rename CAMERA=FEATURE", text, action="append", default=[])
    add(
        "--ensemble-coeff M",
        "ask in each turn, and play the mean of all chunks, the i-th from the oldest weighted by exp(-M i)",
        type=bounded(float, lambda value: -10.0 <= value <= 10.0, "-10 to 10"),
    )
    add("--timeout S", f"of each answer (default {TIMEOUT_S:g} s)", type=float, default=TIMEOUT_S)
    shape = '{"episodes": [{"steps", "requests", "ended", "score": {what the bridge says}}]}'
    parser.add_output(shape, quiet="print nothing but errors")


def run_hud_agent(arguments: Arguments) -> None:
    from remote_inference.learn.hud.agent import HudAgent  # noqa: PLC0415  imports rclpy
    from remote_inference.learn.hud.client import HudControl, HudError  # noqa: PLC0415
    from remote_inference.robot.queue.ensemble import Ensemble  # noqa: PLC0415
    from remote_inference.tools.deployment.bringup import absolute_name  # noqa: PLC0415

    host, _, port = arguments.control.rpartition(":")
    if not host or not port.isdecimal():
        raise HudError(f"found {arguments.control!r}, expected HOST:PORT of a control channel")
    server = absolute_name(arguments.server, "--server")
    rename = dict(_split(text) for text in arguments.rename)
    played = []
    with (
        HudControl(host, int(port), arguments.timeout) as control,
        open_client("hud_agent", namespace=f"/hud_{token_hex(4)}") as client,
    ):
        ensemble = None if arguments.ensemble_coeff is None else Ensemble(arguments.ensemble_coeff)
        agent = HudAgent(client, control, server, arguments.timeout, rename, ensemble=ensemble)
        for index in range(arguments.episodes):
            task = {} if arguments.task is None else {"task": arguments.task}
            if arguments.seed is not None:
                task["seed"] = arguments.seed + index
            episode = agent.play(task)
            played.append(episode)
            if not (arguments.quiet or arguments.json):
                counts = f"{episode.steps} steps, {episode.requests} requests"
                say(f"{counts}: {dict(episode.score)}")
        if arguments.json:
            print_json({"episodes": [vars(episode) for episode in played]})


def _split(text: str) -> tuple[str, str]:
    camera, equals, feature = text.partition("=")
    if not camera or not equals or not feature:
        raise UserError(f"--rename: found {text!r}, expected CAMERA=FEATURE")
    return camera, feature
