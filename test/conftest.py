# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Every test process has a ROS domain of its own, its children inherit it, and nothing leaves the host."""

import fcntl
import gc
import os
import random
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO


def _claim_domain() -> tuple[int, IO[str]]:
    """Return a ROS domain that no other test process of this host uses, and the file that reserves it."""
    for domain in range(101, 0, -1):  # safe on Linux: their ports lie below the ephemeral range
        with suppress(OSError):  # locked, or another user's file
            claim = Path(tempfile.gettempdir(), f"ros_test_domain_{domain}.lock").open("w")  # noqa: SIM115  kept open
            fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return domain, claim
    raise RuntimeError("every ROS domain from 1 to 101 is used by another test process")


_domain, _claim = _claim_domain()
os.environ["ROS_DOMAIN_ID"] = str(_domain)
os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
# A shell lets its background jobs ignore two of these, `nohup` the third, and their children inherit that.
for _number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)
os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)  # for the wheels; a sourced workspace has set it

import time  # noqa: E402
from collections.abc import Generator, Iterator  # noqa: E402

import pytest  # noqa: E402
import rclpy  # noqa: E402
from rclpy.node import Node  # noqa: E402

import remote_inference.server.policies  # noqa: E402, F401  names the back ends that manifests of tests have
from remote_inference.base import fast_dds  # noqa: E402
from support import zenoh_router  # noqa: E402
from support.hang_guard import HangGuard  # noqa: E402
from support.log_folder import LOG_FOLDER  # noqa: E402

PROFILE = fast_dds.profile_variable()
LOOPBACK = str(Path(__file__).with_name("support") / "loopback.xml")
if rclpy.get_rmw_implementation_identifier() == zenoh_router.RMW:
    zenoh_router.start()
elif not fast_dds.is_configured(os.environ) or os.environ.get(PROFILE) == LOOPBACK:  # by a worker's parent
    os.environ[PROFILE] = LOOPBACK
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SYSTEM_DEFAULT"  # that of the profile, which is this host


MOST_S = (
    360.0  # of one test with its fixtures: longer than `timeout`, which no Python code hears inside a library
)
LOG_LINES = 60  # per process, shown when a test fails
# Folders whose tests start processes, most of them nodes.
PROCESS_FOLDERS = {"evaluation", "faults", "keys", "newcomer", "nodes", "rollouts", "system", "transport"}
# What may differ by ROS distribution: executors, discovery, services, parameters, signals, recording.
DISTRIBUTION_FILES = {
    *("test_bag_recorder", "test_drain", "test_executors", "test_later_service", "test_duplicate_server"),
    *("test_operator_client", "test_operator_services", "test_operator_verbs", "test_parameters"),
    *("test_policy_server", "test_remote_inference", "test_schedule", "test_server_faults"),
    *("test_session_services", "test_signals", "test_so_arm101", "test_topic_watch"),
}

# Elsewhere: what trains, draws, starts programs or plays thousands of cases, for five seconds or more.
SLOW_FILES = {
    *("test_bench_against", "test_build_tests", "test_cdr_view", "test_chunk_options", "test_colcon"),
    *("test_decisions", "test_docker", "test_engine_properties", "test_engine_replay", "test_explain"),
    *("test_export", "test_flow", "test_fuzz", "test_health", "test_learner", "test_lost_messages"),
    *("test_onnx_export", "test_open_loop", "test_pictures", "test_prefix", "test_process_environment"),
    *("test_process_group", "test_program", "test_program_signals", "test_provenance"),
    *("test_provenance_in_browser", "test_read_random", "test_read_rewritten", "test_read_whole"),
    *("test_remote_servers", "test_repair", "test_run_verbs", "test_sbom"),
    *("test_scheduler", "test_soak", "test_systemd", "test_timeline", "test_torch_chunk", "test_train"),
    *("test_weight_refusals", "test_weight_sender", "test_weight_updates", "test_weight_values"),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "leave out what is marked nodes or slow, whose files then are not even imported"
    parser.addoption("--fast", action="store_true", help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(HangGuard(config, MOST_S))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Return whether a path is left out without a look at it; None: as pytest says."""
    is_left_out = collection_path.name in PROCESS_FOLDERS or collection_path.stem in SLOW_FILES
    return True if config.getoption("fast") and is_left_out else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave what exists by now out of garbage collections, which would stop a test's threads for long."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by where they are: `-m "not nodes"` runs those that start no nodes."""
    if hasattr(config, "workerinput"):
        _mix_files(items)
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and PROCESS_FOLDERS & {*item.path.relative_to(here).parts}:
            item.add_marker("nodes")
        if item.path.stem in SLOW_FILES:
            item.add_marker("slow")
        if item.path.stem in DISTRIBUTION_FILES:
            item.add_marker("distribution")


def _mix_files(items: list[pytest.Item]) -> None:
    """Let files that wait and files that compute take turns, in the same order in each test process.

    Each process begins with its share of the list. In the order of the folders, the processors had too much
    to do at first, and then too little.
    """
    files: dict[Path, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    mixed = list(files.values())
    random.Random(1).shuffle(mixed)
    items[:] = [item for file in mixed for item in file]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the last log lines of the test's processes when the test fails."""
    report = yield
    folder = _find_log_folder(item) if report.failed else None
    if folder is not None:
        for log in sorted(folder.rglob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            report.sections.append((f"end of {log.relative_to(folder)}", "\n".join(lines)))
    return report


def _find_log_folder(item: pytest.Item) -> Path | None:
    """Return where the logs of a test are: a fixture says it, or has a `folder` as a rig has."""
    arguments = getattr(item, "funcargs", {})
    of_fixtures = (getattr(made, "folder", None) for made in arguments.values())
    folders = (item.stash.get(LOG_FOLDER, None), *of_fixtures, arguments.get("tmp_path"))
    return next((folder for folder in folders if isinstance(folder, Path)), None)


def pytest_report_header() -> str:
    rmw = rclpy.get_rmw_implementation_identifier()
    return f"ROS 2 {os.environ.get('ROS_DISTRO', 'from wheels')}, {rmw}, domain {os.environ['ROS_DOMAIN_ID']}"


def pytest_sessionfinish() -> None:
    """Remove the shared memory of processes that tests killed: Fast DDS frees it only on a clean exit.

    A port's memory is used again by the next process of its number, which may be starting right now: while
    other test processes run, that of ports stays.
    """
    in_use = _shared_memory_in_use()
    minute_ago = time.time() - 60.0
    shared = Path("/dev/shm")
    left = [*shared.glob("*fastrtps_*"), *shared.glob("*fastdds_*")]  # of Jazzy, of Kilted
    if _others_run():
        left = [file for file in left if "_port" not in file.name]
    for file in left:
        # A mutex is open only while it is held: it goes with what it guards.
        guarded = file.with_name(file.name.removeprefix("sem.").removesuffix("_mutex"))
        with suppress(OSError):
            if not {str(file), str(guarded)} & in_use and file.stat().st_mtime < minute_ago:
                file.unlink()


def _others_run() -> bool:
    """Return whether another test process of this host has claimed a domain."""
    for claimed in Path(tempfile.gettempdir()).glob("ros_test_domain_*.lock"):
        if claimed.name == Path(_claim.name).name:
            continue
        try:
            with claimed.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # locked, or another user's
            return True
    return False


def _shared_memory_in_use() -> set[str]:
    """Return the files that live processes have mapped or hold open.

    Fast DDS's lock files are only held open. Without them a process's peers take it for dead and read no more
    of what it sends.
    """
    in_use = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):  # the process ended, or is another user's
            in_use |= {line.split()[-1] for line in maps.read_text().splitlines() if "/dev/shm/" in line}
    for file in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):
            in_use.add(os.readlink(file))
    return in_use


@pytest.fixture
def no_zenoh_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide Zenoh's variables, set by a user or by a test run on rmw_zenoh: they override the defaults."""
    for name in [name for name in os.environ if name.startswith("ZENOH_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What is freed is freed at once, not when Python looks for cycles."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def no_transports_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take Fast DDS' profile of the tests away: nobody has configured it."""
    for name in fast_dds.CHOICES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def node() -> Iterator[Node]:
    """An rclpy node with a context of its own."""
    context = rclpy.Context()
    rclpy.init(context=context)
    made = rclpy.create_node("test_node", context=context)
    yield made
    made.destroy_node()
    rclpy.shutdown(context=context)
