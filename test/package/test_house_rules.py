# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""The structure that the package promises: a pure core, layered folders, files that agree with each other."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Set as AbstractSet
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest

from remote_inference.base.contract.contract import load_contract
from remote_inference.base.nodes.start import MODULES
from remote_inference.learn.environments.belt_arm.scene import JOINT_NAMES, LIMITS
from remote_inference.server.manifest.manifest import load_manifest
from remote_inference.server.policies import load_policy

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "remote_inference"
CONTRACT = ROOT / "config" / "belt_arm.contract.yaml"
MANIFEST = ROOT / "config" / "belt_arm.manifest.yaml"


MODULE_FILES = {
    ".".join(("remote_inference", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): path
    for path in sorted(SOURCE.rglob("*.py"))
}

# What the modules of each room may import, besides those of their own.
ROOMS: Mapping[str, AbstractSet[str]] = {
    "base": set(),
    "robot": {"base"},
    "server": {"base"},
    "bags": {"base", "robot"},  # replays a robot's decisions
    "learn": {"base", "robot", "server", "bags"},
    "tools": {"base", "robot", "server", "bags", "learn"},
}
GENERATED = ("remote_inference.msg", "remote_inference.srv", "remote_inference.action")
PURE_LIBRARIES = {"numpy", "pydantic", "pydantic_core", "ruckig", "yaml"}
# What decides, without ROS, torch, clocks or transports of its own.
PURE = sorted(
    path
    for pattern in (
        *("base/contract/**/*.py", "base/documents/*.py", "robot/**/*.py", "server/manifest/*.py"),
        *("server/requests/*.py", "server/*.py"),
        *(f"base/{name}.py" for name in ("admission", "calls", "exchange", "fingerprint", "limits")),
        *(f"base/{name}.py" for name in ("minimum_jerk", "policy", "repeats", "rotations", "seeds", "tags")),
        "learn/environment.py",
    )
    for path in SOURCE.glob(pattern)
    if path.relative_to(SOURCE).parts[:2] != ("robot", "nodes")
    and path.stem not in {"decisions", "request_decoder"}  # to messages and back
)


def imports_of(path: Path) -> set[str]:
    """Return the modules that a file imports anywhere: in a function and for typing, too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import, expected the full name"
            assert node.module
            parts = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {part if part in MODULE_FILES else node.module for part in parts}
    return found


IMPORTS = {
    module: {name for name in imports_of(path) if name in MODULE_FILES}
    for module, path in MODULE_FILES.items()
}


def find_wrong_imports(imports: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return the imports of a room that its own may not import."""
    wrong = []
    for module, found in imports.items():
        _, room, *_ = [*module.split("."), ""]
        for name in found - {"remote_inference"}:  # the version alone
            other = name.split(".")[1]
            if room and other != room and other not in ROOMS[room]:
                wrong.append(f"{module} imports {name}")
    return wrong


def test_each_room_imports_those_alone_that_it_may() -> None:
    assert {module.split(".")[1] for module in MODULE_FILES if "." in module} == set(ROOMS)
    assert find_wrong_imports(IMPORTS) == []


@pytest.mark.parametrize(
    ("module", "imported"),
    [
        ("base.contract.contract", "robot.safety.guard"),
        ("robot.safety.guard", "server.requests.worker"),
        ("server.nodes.serving", "robot.nodes.telemetry"),
        ("server.nodes.serving", "learn.weights.live"),
        ("bags.storage.bag", "server.manifest.manifest"),
        ("learn.evaluation.run", "tools.deployment.bringup"),
    ],
)
def test_an_import_of_a_room_above_or_beside_is_found(module: str, imported: str) -> None:
    imports = {f"remote_inference.{module}": {f"remote_inference.{imported}"}}
    assert find_wrong_imports(imports) == [f"remote_inference.{module} imports remote_inference.{imported}"]


# What strings may name above them, as entry points do: it is imported when somebody asks for it by its name.
NAMED_ABOVE = {
    "remote_inference.base.nodes.start": {  # executables
        "remote_inference.bags.nodes.bag_recorder",
        "remote_inference.learn.nodes.belt_arm",
        "remote_inference.learn.nodes.environment",
        "remote_inference.robot.nodes.remote_inference",
        "remote_inference.robot.nodes.command_watchdog",
        "remote_inference.server.nodes.policy_server",
    },
    "remote_inference.learn.evaluation.real_time": {"remote_inference.tools.deployment.evaluated_robot"},
    "remote_inference.server.live_weights": {"remote_inference.learn.nodes.weights_link"},
    "remote_inference.server.policy_error": {  # whose a frame of a traceback is: nothing is imported
        "remote_inference.tools.deployment"
    },
}


def named_by(path: Path) -> set[str]:
    """Return the modules that strings name, alone, with an attribute, or as the begin of an f-string.

    Groups of entry points are left out: they have the names of rooms, and import nothing.
    """
    tree = ast.parse(path.read_text())
    groups = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "GROUP"
    }
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in groups:
            name = node.value.partition(":")[0].rstrip(".")
            if re.fullmatch(r"remote_inference(\.\w+)+", name):
                while name not in MODULE_FILES:
                    name = name.rpartition(".")[0]
                found.add(name)
    return found


def test_no_string_names_a_module_above_or_across():
    named = {module: named_by(path) - NAMED_ABOVE.get(module, set()) for module, path in MODULE_FILES.items()}
    assert not find_wrong_imports(named)


def test_what_may_be_named_above_is_still_named():
    for module, names in NAMED_ABOVE.items():
        assert names <= named_by(MODULE_FILES[module]), module


@pytest.mark.parametrize(
    "code",
    [
        "ADD = 'remote_inference.server.policies.hold:load'",
        "ADD = 'remote_inference.server.policies.hold.load'",
        "ROOM = 'remote_inference.server.policies.hold'",
        "ADD = f'remote_inference.server.policies.hold:{NAME}'",
        "ADD = f'remote_inference.server.policies.hold.{NAME}'",
    ],
)
def test_a_string_that_names_a_module_is_found(code: str, tmp_path: Path):
    path = tmp_path / "module.py"
    path.write_text(f"GROUP = 'remote_inference.policies'\n{code}\n")
    assert named_by(path) == {"remote_inference.server.policies.hold"}
    assert find_wrong_imports({"remote_inference.base.documents.registry": named_by(path)})


def test_whoever_reads_a_document_has_imported_what_it_may_name() -> None:
    """Packages add what they have to the registries of documents when they are imported."""
    wanted = {"load_contract": "base.wire", "parse_contract": "base.wire", "load_manifest": "server.policies"}
    declaring = ("remote_inference.base.contract", "remote_inference.server.manifest")
    for module, path in MODULE_FILES.items():
        if not module.startswith(declaring):
            imported = {
                alias.name
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.ImportFrom)
                for alias in node.names
            }
            for package in {wanted[name] for name in imported & set(wanted)}:
                assert f"remote_inference.{package}" in reached_from(module), f"{module} imports no {package}"


def reached_from(module: str) -> set[str]:
    """Return the modules that a module imports, and theirs; with each its package, which is imported, too."""
    reached, waiting = set(), [module]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [*IMPORTS.get(name, ()), *filter(None, [name.rpartition(".")[0]])]
    return reached


def test_no_modules_import_each_other_in_a_circle():
    """A package stands for its `__init__` alone, which may export its own modules."""
    try:
        TopologicalSorter(IMPORTS).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def circles_among_rooms(imports: Mapping[str, AbstractSet[str]]) -> list[str]:
    """Return a circle for each package whose rooms and modules import each other in one.

    A package's own `__init__`, its door, stands in none of its rooms.
    """
    found = []
    packages = {module[: dot.start()] for module in imports for dot in re.finditer(r"\.", module)}
    for package in sorted(packages):
        rooms: dict[str, set[str]] = {}
        for module, names in imports.items():
            for name in names:
                inner = [part.removeprefix(f"{package}.") for part in (module, name)]
                if inner != [module, name] and all(m.startswith(f"{package}.") for m in (module, name)):
                    room, other = (part.split(".")[0] for part in inner)
                    rooms.setdefault(room, set()).update({other} - {room})
        try:
            TopologicalSorter(rooms).prepare()
        except CycleError as error:
            found.append(f"{package}: {' -> '.join(error.args[1])}")
    return found


def test_no_rooms_import_each_other_in_a_circle():
    assert circles_among_rooms(IMPORTS) == []


def test_a_circle_among_rooms_is_found_where_its_modules_form_none():
    imports = {"a.queue.rows": {"a.safety.guard"}, "a.safety.stops": {"a.queue.latency"}}
    assert circles_among_rooms(imports) in (["a: queue -> safety -> queue"], ["a: safety -> queue -> safety"])


def test_no_two_test_modules_share_a_name():
    """pytest imports them by name alone: of two, one is not collected in a process that knows the other."""
    paths = sorted((ROOT / "test").rglob("*.py"))
    names = Counter(path.name for path in paths if path.name not in {"conftest.py", "__init__.py"})
    assert [name for name, count in names.items() if count > 1] == []


IMPORT = re.compile(r"^\s*(?:from (\w+)[\w.]* import|import (\w+))\b", re.MULTILINE)  # in strings, too
PROGRAMS = ("tools", "benchmarks")  # tests import them by their bare names


def find_borrowed_helpers(root: Path) -> list[str]:
    """Return who imports, by its bare name, a helper that stands beside another folder's tests."""
    programs = {path.stem for folder in PROGRAMS for path in (root / folder).glob("*.py")}
    beside: dict[str, set[Path]] = {}
    for path in (root / "test").rglob("*.py"):
        beside.setdefault(path.stem, set()).add(path.parent)
    names = beside.keys() - programs - {"conftest", "__init__"}
    found = []
    for path in (path for folder in ("test", *PROGRAMS) for path in (root / folder).rglob("*.py")):
        own = set() if root / "test" / "support" in path.parents else {path.parent}
        imported = {first or second for first, second in IMPORT.findall(path.read_text())}
        borrowed = (name for name in imported & names if not own & beside[name])
        found += [f"{path.relative_to(root)} imports {name}" for name in borrowed]
    return sorted(found)


def test_helpers_of_other_folders_are_imported_by_their_full_name():
    assert find_borrowed_helpers(ROOT) == []
    assert (
        'pythonpath = ["test", "tools", "benchmarks", "examples"]\n' in (ROOT / "pyproject.toml").read_text()
    )
    assert not [path for path in (ROOT / "test").rglob("conftest.py") if "sys.path" in path.read_text()]


def test_a_helper_that_is_imported_by_its_bare_name_is_found(tmp_path: Path):
    files = {
        "test/support/rigs/rig.py": "from waiting import wait",
        "test/support/waiting.py": "",
        "test/nodes/still_arm.py": "",
        "test/nodes/test_arm.py": "import still_arm\nfrom support.rigs.rig import Rig\nimport make_docs",
        "test/faults/test_arm_faults.py": 'CODE = """\nfrom still_arm import wait\n"""',
        "tools/make_docs.py": "import rig  # noqa",
        "benchmarks/cycle.py": "from support.rigs import rig",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert find_borrowed_helpers(tmp_path) == [
        "test/faults/test_arm_faults.py imports still_arm",
        "test/support/rigs/rig.py imports waiting",
        "tools/make_docs.py imports rig",
    ]


def find_absent_imports(script: Path) -> list[str]:
    """Return what a script imports from the package, and is not there: nobody runs every tool every day."""
    absent = []
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "remote_inference":
            module = import_module(node.module or "")
            absent += [
                f"{script.name}: {node.module}.{alias.name}"
                for alias in node.names
                if not hasattr(module, alias.name) and f"{node.module}.{alias.name}" not in MODULE_FILES
            ]
    return absent


def test_tools_and_benchmarks_import_what_is_there() -> None:
    scripts = [*(ROOT / "tools").glob("*.py"), *(ROOT / "benchmarks").glob("*.py")]
    assert len(scripts) > 40
    assert [absent for script in scripts for absent in find_absent_imports(script)] == []


def test_an_import_of_what_has_moved_is_found(tmp_path: Path) -> None:
    script = tmp_path / "old.py"
    script.write_text("from remote_inference.base import contract, treaty\n")
    assert find_absent_imports(script) == ["old.py: remote_inference.base.treaty"]


def test_pages_stand_in_docs_but_for_those_that_every_repository_has():
    assert {path.name for path in ROOT.glob("*.md")} == {"README.md", "CONTRIBUTING.md", "SECURITY.md"}


@pytest.mark.parametrize("path", PURE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_what_decides_imports_few_libraries_and_nothing_of_ros_or_torch(path: Path) -> None:
    libraries = {name.split(".")[0] for name in imports_of(path)} - sys.stdlib_module_names
    assert libraries <= {"remote_inference", *PURE_LIBRARIES}
    generated = {name for name in imports_of(path) if name.startswith(GENERATED)}
    assert not generated, "messages belong to base.wire and the nodes"


def test_nothing_unpickles() -> None:
    writes = SOURCE / "server" / "frameworks" / "lerobot_async.py"  # pickles for peers that read nothing else
    for path in SOURCE.rglob("*.py"):
        assert not {"cPickle", "dill", "marshal", *({"pickle"} if path != writes else ())} & imports_of(
            path
        ), path
    used = {node.attr for node in ast.walk(ast.parse(writes.read_text())) if isinstance(node, ast.Attribute)}
    assert not {"load", "loads", "Unpickler"} & used


def test_tables_are_drawn_in_one_place() -> None:
    """One code for terminals and one for pipes: `tools.tables`."""
    drawing = [path for path in SOURCE.rglob("*.py") if {"rich.table", "tabulate"} & imports_of(path)]
    assert drawing == [SOURCE / "tools" / "tables.py"]


def test_periodic_calls_are_made_by_the_schedule() -> None:
    """With rclpy's timers, an overloaded node answers no service."""
    assert not [path for path in SOURCE.rglob("*.py") if ".create_timer(" in path.read_text()]


def coroutines_of(path: Path) -> list[str]:
    """Return the names of the coroutines that a file defines."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)]


def test_no_node_has_a_coroutine() -> None:
    """rclpy's events executor raises TypeError for one: a service that waits is a `nodes.later_service`.

    But for what rclpy itself awaits.
    """
    found = {path.name: names for path in SOURCE.glob("*/nodes/**/*.py") if (names := coroutines_of(path))}
    assert found == {"executors.py": ["execute_or_skip"]}


def test_a_coroutine_is_found(tmp_path: Path) -> None:
    path = tmp_path / "node.py"
    path.write_text("class Node:\n    async def answer(self):\n        pass\n\n    def ask(self): ...\n")
    assert coroutines_of(path) == ["answer"]


def test_every_interface_is_built_and_every_field_explained() -> None:
    listed = set(
        re.findall(r"(?:msg|srv|action)/\w+\.(?:msg|srv|action)", (ROOT / "CMakeLists.txt").read_text())
    )
    files = [*ROOT.glob("msg/*.msg"), *ROOT.glob("srv/*.srv"), *ROOT.glob("action/*.action")]
    assert {str(path.relative_to(ROOT)) for path in files} == listed
    for path in files:
        head, *lines = path.read_text().splitlines()
        assert head.startswith("# "), path
        for line in lines:
            if line and line != "---" and not line.startswith(("#", "string policy_")):
                is_self_explaining = re.fullmatch(
                    r"(bool success|string (session_id|message)|ServerStatus status)", line
                )
                assert "#" in line or is_self_explaining or "max_sessions" in line, f"{path.name}: {line}"


def test_the_names_of_an_interface_s_fields_compile_in_cpp() -> None:
    """The messages' C++ is generated where ROS 2 is installed; the wheels of the tests do without."""
    structs = []
    for path in (*ROOT.glob("msg/*.msg"), *ROOT.glob("srv/*.srv"), *ROOT.glob("action/*.action")):
        for part in path.read_text().split("\n---\n"):
            fields = re.findall(r"^\w\S*\s+(\w+)\b(?!\s*=)", part, re.MULTILINE)
            members = "".join(f"int {field};\n" for field in fields)
            structs.append(f"struct {path.stem}_{len(structs)} {{\n{members}}};\n")
    compiler = ["c++", "-fsyntax-only", "-x", "c++", "-"]
    ended = subprocess.run(compiler, input="".join(structs), text=True, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_version_is_the_same_everywhere() -> None:
    package = ElementTree.parse(ROOT / "package.xml").findtext("version")
    assert f'version = "{package}"' in (ROOT / "pyproject.toml").read_text()
    assert f'__version__ = "{package}"' in (SOURCE / "__init__.py").read_text()


def test_every_executable_has_a_script_and_an_entry_point() -> None:
    entry_points = (ROOT / "pyproject.toml").read_text()
    for name in MODULES:
        assert f'{name} = "remote_inference.base.nodes.start:{name}"' in entry_points
        assert (
            f"from remote_inference.base.nodes.start import {name}" in (ROOT / "scripts" / name).read_text()
        )


def test_the_demo_s_contract_allows_what_the_simulated_arm_can_do() -> None:
    contract = load_contract(CONTRACT)
    assert contract.actions.names == JOINT_NAMES
    bounds = zip(LIMITS.names, LIMITS.lower, LIMITS.upper, LIMITS.max_velocity, strict=True)
    for name, lower, upper, velocity in bounds:
        limit = contract.actions.limits[name]
        assert (limit.min, limit.max, limit.max_velocity) == (lower, upper, velocity), name


def test_the_demo_s_contract_fits_its_policy() -> None:
    contract, policy = load_contract(CONTRACT), load_policy(load_manifest(MANIFEST).model)
    assert contract.actions.names == policy.spec.action_names
    assert contract.state_names == policy.spec.state_names
    assert {image.name for image in contract.image_features} == set(policy.spec.image_shapes)
    assert contract.fps == policy.spec.trained_fps
