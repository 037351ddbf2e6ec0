# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""`remote-inference serve`: the manifest that serves the policy of a folder or file."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from remote_inference.base.documents.document import DocumentError, parse_document, parse_json, read_yaml
from remote_inference.base.documents.problems import show_value
from remote_inference.base.documents.yaml_text import dump_yaml
from remote_inference.base.errors import UserError
from remote_inference.base.policy import PolicyError
from remote_inference.server.manifest.manifest import Manifest, load_manifest
from remote_inference.server.policies.lerobot.checkpoint import read_checkpoint

# -- Which policy a folder or file holds: recognised by its names and small JSON files, and not loaded ---


HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
SHOWN_NAMES = 8  # of a folder in which nothing was recognised


@dataclass(frozen=True)
class FoundPolicy:
    """A policy on this machine. what: words for people. path: as `model.path` of a manifest takes it."""

    what: str
    backend: str
    path: Path
    computes: bool = True  # on a device that somebody may choose


def find_policy(path: Path) -> FoundPolicy:
    """Return the one policy that a folder holds, or a file is. Raises UserError with found and expected."""
    if not path.exists():
        raise UserError(_explain_absence(path))
    found = _policies_of(path)
    if len(found) == 1:
        return found[0]
    if found:
        several = " and ".join(f"{one.what} ({one.path})" for one in found)
        raise UserError(f"{path}: found {several}, expected one policy: name its file")
    raise UserError(f"{path}: found {_describe(path)}, expected {EXPECTED}{_find_below(path)}")


def _policies_of(path: Path) -> list[FoundPolicy]:
    files, readers = [path], READERS | READERS_OF_NAMED
    if not path.is_file():
        files, readers = [file for file in sorted(path.iterdir()) if file.is_file()], READERS
    pairs = [(read, file) for pattern, read in readers.items() for file in files if file.match(pattern)]
    return [found for read, file in pairs if (found := read(file))]


def _read_checkpoint(file: Path) -> FoundPolicy | None:
    content = parse_json(file.read_bytes(), str(file))
    kind = content.get("type") if isinstance(content, dict) else None
    if not isinstance(kind, str):
        return None
    return FoundPolicy(f"a LeRobot checkpoint of type {show_value(kind)}", "lerobot", file.parent)


def _read_package_policy(file: Path) -> FoundPolicy | None:
    content = parse_json(file.read_bytes(), str(file))
    if not isinstance(content, dict):
        return None
    if "architecture" in content:
        what = f"a chunk policy with the architecture {show_value(content['architecture'])}"
        return FoundPolicy(what, "chunk_network", file.parent)
    return FoundPolicy("a policy that holds every joint where it is", "hold", file.parent, computes=False)


def _read_weights(file: Path) -> FoundPolicy | None:
    """Return the policy of a weights file; the folder of a chunk policy may have several."""
    config = file.with_name("policy.json")
    found = _read_package_policy(config) if config.is_file() else None
    if found is None or found.backend != "chunk_network":
        return None
    return FoundPolicy(found.what, found.backend, file)


# By the pattern of the file that identifies a policy. None: its content says that it is another's.
Reader = Callable[[Path], FoundPolicy | None]
READERS: dict[str, Reader] = {
    "config.json": _read_checkpoint,
    "policy.json": _read_package_policy,
    "*.onnx": partial(FoundPolicy, "a policy as an ONNX file", "onnx"),
}
READERS_OF_NAMED: dict[str, Reader] = {"*.safetensors": _read_weights}  # where the file itself is named
EXPECTED = (
    "a LeRobot checkpoint (config.json with a `type`), a policy of this package (policy.json), an ONNX file "
    "(*.onnx), weights by their name, beside a policy.json, or a manifest by its name (*.yaml)"
)


def _explain_absence(path: Path) -> str:
    text = str(path)
    if HUB_NAME.fullmatch(text) and not path.parent.exists():
        return (
            f"{text}: found no such folder or file, and nothing is fetched from a hub. If it is a name "
            f"there: hf download {text} --local-dir {path.name}, then remote-inference serve {path.name}"
        )
    return f"{text}: found no such folder or file, expected a policy on this machine"


def _describe(path: Path) -> str:
    """Return what a path holds in which nothing was recognised."""
    if not path.is_dir():
        return f"a file {path.suffix}" if path.suffix else "a file without a suffix"
    names = sorted(entry.name for entry in path.iterdir())
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(names[:SHOWN_NAMES]) + more if names else "an empty folder"


def _find_below(path: Path) -> str:
    """Return in words which folders of this one hold a policy: a training writes it one level deeper."""
    folders = [entry for entry in sorted(path.iterdir()) if entry.is_dir()] if path.is_dir() else []
    holding = [str(folder) for folder in folders if _policies_of(folder)]
    return f"; there is one in {' and in '.join(holding)}" if holding else ""


MANIFEST_SUFFIXES = frozenset({".yaml", ".yml"})
MAX_SESSIONS = 4  # robots of a server for which nobody has decided it
DEVICES = ("cuda", "cpu")  # the first that the machine has
HEADER = "# Written by `remote-inference serve`. docs/reference/manifest.md lists all keys.\n"


@dataclass(frozen=True)
class ServeOptions:
    """The options of `remote-inference serve` besides the path. Empty: the default holds."""

    dataset: Path | None = None
    language_model: Path | None = None
    device: str = ""
    dtype: str = ""
    task: str = ""

    def given(self) -> Iterator[tuple[str, Any]]:
        for name, value in vars(self).items():
            if value:
                yield f"--{name.replace('_', '-')}", value


@dataclass(frozen=True)
class Plan:
    """What is served, by which manifest. content: of the manifest to write; None: it is there already."""

    what: str
    manifest: Path
    content: dict[str, Any] | None


def make_plan(path: Path, options: ServeOptions, manifest: Path | None = None) -> Plan:
    """Return how the policy at `path` is served; nothing is written. A manifest is served as it is.

    manifest: the file to write; None: `my_act.manifest.yaml` beside the folder `my_act`. Raises UserError.
    """
    if path.suffix in MANIFEST_SUFFIXES:
        given = [*options.given(), *([("--manifest", manifest)] if manifest else [])]
        for flag, value in given:
            raise UserError(
                f"{flag}: found {value} beside the manifest {path}, which says what is served; expected "
                "the option without a manifest, or the key in the file"
            )
        load_manifest(path, os.environ)
        return Plan("a manifest", path, None)
    found = find_policy(path)
    policy = _absolute(path if path.is_dir() else found.path)
    beside = policy.with_name(f"{policy.name if policy.is_dir() else policy.stem}.manifest.yaml")
    file = _absolute(manifest or beside)
    return Plan(found.what, file, make_manifest(found, options, file))


def make_manifest(found: FoundPolicy, options: ServeOptions, file: Path) -> dict[str, Any]:
    """Return the content of the manifest `file` that serves a policy. Raises UserError."""
    model: dict[str, Any] = {"backend": found.backend, "path": _relative(found.path, file.parent)}
    if device := options.device or (list(DEVICES) if found.computes else []):
        model["device"] = device
    if options.dtype:
        model["dtype"] = options.dtype
    if found.backend == "lerobot":
        dataset = _require_dataset(found.path, options.dataset)
        model["options"] = {"dataset": _relative(dataset, found.path)}
        if language_model := _find_language_model(found, options.language_model):
            model["options"]["language_model"] = _relative(language_model, found.path)
    for flag, value in options.given():
        if found.backend != "lerobot" and flag in {"--dataset", "--language-model"}:
            raise UserError(f"{flag}: found {value} for {found.what}, expected it for LeRobot checkpoints")
    task = {"default_task": options.task} if options.task else {}
    content = {"model": model, **task, "max_sessions": MAX_SESSIONS}
    parse_document(content, Manifest, str(file))
    return content


def write_manifest(plan: Plan) -> bool:
    """Write the manifest unless the file says the same; return whether it was written.

    Raises UserError with the difference when the file says something else.
    """
    if plan.content is None:
        return False
    if plan.manifest.exists():
        found = read_yaml(plan.manifest)
        if found == plan.content:
            return False
        there, made = (dump_yaml(side) for side in (found, plan.content))
        differences = difflib.ndiff(there.splitlines(), made.splitlines())
        shown = "\n".join(line for line in differences if line.startswith(("- ", "+ ")))
        raise UserError(
            f"{plan.manifest}: found (-) another manifest than expected (+), and left it alone:\n{shown}\n"
            f"to serve it as it is: remote-inference serve {_quote(plan.manifest)}; to write another: "
            "--manifest FILE, or remove this one"
        )
    try:
        text = dump_yaml(plan.content, default_flow_style=None, width=1000, allow_unicode=True)
        plan.manifest.write_text(HEADER + text, encoding="utf-8")
    except OSError as error:
        raise UserError(
            f"{plan.manifest}: cannot be written: {error.strerror}; --manifest FILE names another place"
        ) from error
    return True


# -- `model.options` -----------------------------------------------------------------------------------------


def _require_dataset(folder: Path, dataset: Path | None) -> Path:
    """Return the file with names and control rate, which a checkpoint lacks."""
    expected = "expected the training data's meta/info.json"
    if dataset is None:
        raise UserError(
            f"--dataset: missing, {expected}: a checkpoint says neither what its numbers are called nor how "
            f"often they were recorded{_explain_dataset(folder)}"
        )
    if not dataset.is_file():
        found = "a folder" if dataset.is_dir() else "nothing"
        raise UserError(f"--dataset: {dataset}: found {found}, {expected}")
    return dataset


def _explain_dataset(folder: Path) -> str:
    """Return how the file is fetched, when the checkpoint says with which data it was trained."""
    file = folder / "train_config.json"
    try:
        content = parse_json(file.read_bytes(), str(file))
    except (OSError, DocumentError):
        return ""
    dataset = content.get("dataset") if isinstance(content, dict) else None
    name = dataset.get("repo_id") if isinstance(dataset, dict) else None
    if not isinstance(name, str) or not HUB_NAME.fullmatch(name):
        return ""
    data = folder / "data"
    command = f"hf download {name} meta/info.json --repo-type dataset --local-dir {_quote(data)}"
    return f"; to get it: {command}, then --dataset {_quote(data / 'meta' / 'info.json')}"


def _find_language_model(found: FoundPolicy, given: Path | None) -> Path | None:
    """Return the folder of the tokenizer; None for a policy without one, or that finds it by its name."""
    try:
        checkpoint = read_checkpoint(str(found.path))
    except (PolicyError, DocumentError):  # the check says it, with what LeRobot knows of old checkpoints
        return given
    files = checkpoint.family.language_files
    if not files:
        if given is not None:
            raise UserError(f"--language-model: found {given} for {found.what}, which reads no task")
        return None
    step = checkpoint.pre.find_step("tokenizer_processor") or {}
    name = str(checkpoint.config.get("vlm_model_name") or step.get("tokenizer_name"))
    folder = found.path / "tokenizer"
    patterns = " ".join(map(shlex.quote, files))
    fetching = f"hf download {shlex.quote(name)} --local-dir {_quote(folder)} --include {patterns}"
    if given is None and not _is_here(name, os.environ):
        raise UserError(
            f"--language-model: missing, expected the folder of {name}, with which {found.what} reads its "
            f"task and which is not on this machine; to get it: {fetching}, then --language-model "
            f"{_quote(folder)}"
        )
    if given is not None and not given.is_dir():
        raise UserError(
            f"--language-model: {given}: found no folder, expected that of {name}; to get it: {fetching}"
        )
    return given


def _is_here(name: str, environment: Mapping[str, str]) -> bool:
    """Return whether a name is a folder, or in the hub's cache, where LeRobot looks without a network."""
    home = environment.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    cache = Path(environment.get("HF_HUB_CACHE") or Path(home) / "hub")
    return Path(name).is_dir() or (cache / f"models--{name.replace('/', '--')}").is_dir()


# -- files ---------------------------------------------------------------------------------------------------


def _relative(path: Path, home: Path) -> str:
    """Return a path as a document in `home` names it: relative within, so that both can be moved."""
    path, home = _absolute(path), _absolute(home)
    return str(path.relative_to(home) if path.is_relative_to(home) else path)


def _absolute(path: Path) -> Path:
    """Return a path from the root on; links keep their names, for example `last` among checkpoints."""
    return Path(os.path.abspath(path))


def _quote(path: Path) -> str:
    return shlex.quote(str(path))
