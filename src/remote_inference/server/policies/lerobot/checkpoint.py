# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""A LeRobot checkpoint's files and a manifest's options, read and checked before LeRobot sees any of them.

LeRobot takes a folder that does not exist for a name on a hub, and runs whatever class a step of a processor
names. Here a checkpoint is a folder on this machine, its weights are safetensors, and its processors have
known steps only. The options, or a data set's, add the names and the control rate that a checkpoint lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from remote_inference.base.documents.document import Document, DocumentError, parse_json
from remote_inference.base.documents.problems import show_value
from remote_inference.base.lerobot_format import ACTION, STATE, flatten_names
from remote_inference.base.policy import PolicyError
from remote_inference.server.policies import file_content
from remote_inference.server.policies.file_content import Content
from remote_inference.server.policies.trained_policy import UNITS, Unit

# -- The kinds of LeRobot policy that are served, and what LeRobot itself does not say about each --------
#
# Only kinds are listed that build their network from `config.json` alone. Others (groot, wall_x, pi0_fast)
# run Python code that lies beside a model of another name.


@dataclass(frozen=True)
class Family:
    """One kind of policy.

    compiled: what takes the time of a chunk, and `compile` of the options compiles: modules or methods of
    the network by their path.
    noise_shape: of the noise `[rows, columns]` that the policy takes, by its configuration; None: none.
    has_time_axis: whether an observation is `[batch, steps, ...]`, also with a single step.
    language_files: of the model on a hub that a checkpoint names: its tokenizer's, for some kinds its whole
    configuration, as `hf download --include` takes them; empty: the policy reads no task.
    """

    compiled: tuple[str, ...]
    noise_shape: Callable[[Any], tuple[int, int]] | None = None
    has_time_axis: bool = False
    language_files: tuple[str, ...] = ()


def _padded_chunk(config: Any) -> tuple[int, int]:
    return config.chunk_size, config.max_action_dim


def _horizon(config: Any) -> tuple[int, int]:
    return config.horizon, config.action_feature.shape[0]


_TOKENIZER = ("tokenizer*", "special_tokens_map.json")
_CONFIGURATION = ("*.json", "*.txt")
_STEP = ("model.denoise_step",)

FAMILIES: Mapping[str, Family] = {
    "act": Family(("model",)),
    "diffusion": Family(("diffusion.unet",), noise_shape=_horizon, has_time_axis=True),
    "pi0": Family(_STEP, noise_shape=_padded_chunk, language_files=_TOKENIZER),
    "pi05": Family(_STEP, noise_shape=_padded_chunk, language_files=_TOKENIZER),
    "smolvla": Family(_STEP, noise_shape=_padded_chunk, language_files=_CONFIGURATION),
    "xvla": Family(("model.transformer",), language_files=_CONFIGURATION),
}

# They answer with single actions, from a queue or a plan of their own.
WITHOUT_CHUNKS = frozenset({"gaussian_actor", "tdmpc", "vqbet"})

# Steps of processors that compute, and read no file but the tokenizer's.
STEPS = frozenset(
    {
        "absolute_actions_processor",
        "device_processor",
        "normalizer_processor",
        "pi05_prepare_state_tokenizer_processor_step",
        "pi0_new_line_processor",
        "relative_actions_processor",
        "rename_observations_processor",
        "smolvla_new_line_processor",
        "to_batch_processor",
        "tokenizer_processor",
        "unnormalizer_processor",
        "xvla_add_domain_id",
        "xvla_image_scale",
        "xvla_image_to_float",
        "xvla_imagenet_normalize",
    }
)


CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
PRE_FILE = "policy_preprocessor.json"
POST_FILE = "policy_postprocessor.json"
WEIGHTS_SUFFIXES = frozenset({".safetensors", ".bin", ".pt"})  # of files that people take for the weights
STEP_KEYS = frozenset({"registry_name", "config", "state_file"})


class MissingProcessorError(PolicyError):
    """A checkpoint has no processors: LeRobot saved none before its release 0.4."""

    def __init__(self, file: Path, hint: str = "") -> None:
        super().__init__(f"{file}: missing, expected the processor that LeRobot saves with a policy{hint}")
        self.file = file


@dataclass(frozen=True)
class SavedPipeline:
    """A processor as it was saved: its checked steps, and the content of the tensor files that they name."""

    file: Path
    content: Mapping[str, Any]
    tensors: Mapping[str, bytes]

    def find_step(self, name: str) -> Mapping[str, Any] | None:
        """Return the first step's `config` of that registry name, or None when there is no such step."""
        steps = (step for step in self.content["steps"] if step["registry_name"] == name)
        return next((step.get("config", {}) for step in steps), None)


@dataclass(frozen=True)
class Checkpoint:
    """The files of a checkpoint but its weights."""

    folder: Path
    kind: str  # of policy, a key of FAMILIES
    config: Mapping[str, Any]
    pre: SavedPipeline
    post: SavedPipeline

    @property
    def family(self) -> Family:
        return FAMILIES[self.kind]

    @property
    def weights_file(self) -> Path:
        return self.folder / WEIGHTS_FILE


def read_checkpoint(path: str) -> Checkpoint:
    """Read and check the folder of a checkpoint, without LeRobot.

    Raises PolicyError or DocumentError naming file, key, what was found and expected.
    """
    folder = Path(path)
    if not folder.is_dir():
        expected = "a LeRobot checkpoint on this machine; nothing is fetched from a hub"
        raise PolicyError(f"model.path: {folder}: found no folder, expected {expected}")
    config_file = folder / CONFIG_FILE
    config = parse_json(_read(config_file, Content.JSON), str(config_file))
    kind = _find_kind(config, config_file)
    weights_file = folder / WEIGHTS_FILE
    if not weights_file.is_file():
        others = [_describe(file) for file in sorted(folder.iterdir()) if file.suffix in WEIGHTS_SUFFIXES]
        found = f"; found {', '.join(others)}" if others else ""
        raise PolicyError(f"{weights_file}: missing, expected the weights in one safetensors file{found}")
    if problem := file_content.find_mismatch(file_content.read_head(weights_file), Content.SAFETENSORS):
        raise PolicyError(f"{weights_file}: {problem}")
    pre, post = _read_pipeline(folder / PRE_FILE), _read_pipeline(folder / POST_FILE)
    return Checkpoint(folder, kind, config, pre, post)


def _find_kind(config: Any, file: Path) -> str:
    """Return the kind of policy. Raises PolicyError for one that is not served."""
    if not isinstance(config, dict):
        raise PolicyError(f"{file}: found {show_value(config)}, expected a mapping of keys")
    kind = config.get("type")
    if not isinstance(kind, str) or kind not in FAMILIES.keys() | WITHOUT_CHUNKS:
        raise PolicyError(f"{file}: type: found {show_value(kind)}, expected one of {', '.join(FAMILIES)}")
    if kind in WITHOUT_CHUNKS:
        raise PolicyError(f"{file}: type: found {kind!r}, which predicts no chunks and cannot be served")
    if config.get("use_peft"):
        found = f"{file}: use_peft: found true, an adapter alone"
        raise PolicyError(f"{found}; expected a whole policy: merge it")
    return kind


def find_renames(checkpoint: Checkpoint, needed: Sequence[str]) -> tuple[str, ...]:
    """Return in words which of the features that a policy reads its preprocessor gives it by another name.

    Robots send features by the names of `input_features`, `needed`, and the renaming comes after that. Raises
    PolicyError for one that leaves none of a name.
    """
    name = "rename_observations_processor"
    renames = (checkpoint.pre.find_step(name) or {}).get("rename_map") or {}
    place = f"{checkpoint.pre.file}: {name}.rename_map"
    if not isinstance(renames, dict) or not all(isinstance(value, str) for value in renames.values()):
        raise PolicyError(f"{place}: found {show_value(renames)}, expected names by names")
    given = {key: renames.get(key, key) for key in needed}  # what each becomes
    for key, new in given.items():
        if key not in given.values():
            found = f"{show_value(key)} renamed to {show_value(new)}, and nothing in its place"
            expected = f"a map that leaves it: the policy reads it (input_features of {CONFIG_FILE})"
            raise PolicyError(f"{place}: found {found}; expected {expected}")
    changed = [(key, new) for key, new in given.items() if key != new]
    return tuple(f"{key} of the robot is {new} of the policy (rename_map)" for key, new in changed)


def _read_pipeline(file: Path) -> SavedPipeline:
    if not file.exists():
        raise MissingProcessorError(file)
    content = parse_json(_read(file, Content.JSON), str(file))
    steps = content.get("steps") if isinstance(content, dict) else None
    if not isinstance(steps, list):
        raise PolicyError(f"{file}: steps: found {show_value(steps)}, expected a list")
    for index, step in enumerate(steps):
        _check_step(f"{file}: steps.{index}", step)
    names = [step["state_file"] for step in steps if "state_file" in step]
    tensors = {name: _read(file.parent / name, Content.SAFETENSORS) for name in names}
    return SavedPipeline(file, content, tensors)


def _check_step(place: str, step: Any) -> None:
    """Raise PolicyError unless a step is one that is known to compute and do nothing else."""
    if not isinstance(step, dict):
        raise PolicyError(f"{place}: found {show_value(step)}, expected a mapping of keys")
    if "class" in step:
        expected = "a registry_name: a class would run code that the checkpoint chooses"
        raise PolicyError(f"{place}.class: found {show_value(step['class'])}, expected {expected}")
    if unknown := sorted(step.keys() - STEP_KEYS):
        expected = ", ".join(sorted(STEP_KEYS))
        raise PolicyError(f"{place}.{unknown[0]}: found an unknown key, expected {expected}")
    name = step.get("registry_name")
    if not isinstance(name, str) or name not in STEPS:
        expected = f"one of {', '.join(sorted(STEPS))}"
        raise PolicyError(f"{place}.registry_name: found {show_value(name)}, expected {expected}")
    if not isinstance(step.get("config", {}), dict):
        raise PolicyError(f"{place}.config: found {show_value(step['config'])}, expected a mapping of keys")
    file = step.get("state_file", "none.safetensors")
    if not isinstance(file, str) or Path(file).name != file or Path(file).suffix != ".safetensors":
        expected = "the name of a safetensors file beside it"
        raise PolicyError(f"{place}.state_file: found {show_value(file)}, expected {expected}")


def _describe(file: Path) -> str:
    """Return the name of a file with what it is."""
    content = file_content.recognise(file_content.read_head(file)) if file.is_file() else None
    return f"{file.name} ({content.value})" if content else file.name


def _read(file: Path, expected: Content) -> bytes:
    content = file_content.read_file(file)
    if problem := file_content.find_mismatch(content, expected):
        raise PolicyError(f"{file}: {problem}")
    return content


class LeRobotOptions(Document):
    """Keys of `model.options`. Paths are relative to the policy's folder."""

    dataset: str = ""
    """`meta/info.json` of the training data: names of state and actions, and fps"""
    state_names: tuple[str, ...] = ()
    """state that it was trained with, in this order; before dataset's"""
    action_names: tuple[str, ...] = ()
    """columns of a chunk, in this order; before dataset's"""
    trained_fps: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    """control rate of the training data [Hz]; before dataset's"""
    units: Annotated[Mapping[str, Unit], UNITS] = {}
    language_model: str = ""
    """folder of the tokenizer, for smolvla of the whole vision-language model's configuration; empty: what
    the checkpoint names must be on this machine"""
    compile: bool = False
    """compile what takes the time of a chunk with torch.compile; loading takes longer"""
    execution_horizon: Annotated[int | None, Field(ge=1)] = None
    """RTC: most actions of a prefix that count; none: the checkpoint's"""
    max_guidance_weight: Annotated[float | None, Field(gt=0, allow_inf_nan=False)] = None
    """real-time chunking: bound of the correction's factor; none: the checkpoint's"""


@dataclass(frozen=True)
class Names:
    """The names of state and actions, and the recording's rate [Hz]."""

    state: tuple[str, ...]
    action: tuple[str, ...]
    fps: float


def find_names(
    options: LeRobotOptions, folder: Path, state_dim: int | None, action_dim: int
) -> tuple[Names, dict[str, str]]:
    """Return names, control rate and units by name from the options, or else from the data set they name.

    Only data sets that this package wrote say units. state_dim, action_dim: what the checkpoint says; None
    for a policy without state. Raises PolicyError or DocumentError naming file and key when something is
    missing or does not fit.
    """
    file = folder / options.dataset if options.dataset else None
    data_set = _read_data_set(file) if file else {"features": {}}
    fps = options.trained_fps or data_set.get("fps")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not fps > 0:
        where = f"{file}: fps" if file else "model.options: trained_fps"
        expected = "the control rate of the training data [Hz], which a checkpoint does not have"
        raise PolicyError(f"{where}: found {show_value(fps)}, expected {expected}")

    def find(key: str, stated: tuple[str, ...], feature: str, count: int | None) -> tuple[str, ...]:
        if stated or not file:
            return _check_names(f"model.options: {key}", stated, count)
        where = f"{file}: features.{feature}.names"
        try:
            recorded = flatten_names(data_set["features"].get(feature, {}).get("names"))
        except ValueError as error:
            raise PolicyError(f"{where}: {error}") from None
        return _check_names(where, recorded, count)

    state = find("state_names", options.state_names, STATE, state_dim)
    action = find("action_names", options.action_names, ACTION, action_dim)
    units: dict[str, str] = {}
    for feature, known in ((STATE, state), (ACTION, action)):
        said = data_set["features"].get(feature, {}).get("units")
        if isinstance(said, list) and len(said) == len(known):
            pairs = zip(known, said, strict=True)
            units |= {name: unit for name, unit in pairs if isinstance(unit, str) and unit}
    return Names(state, action, float(fps)), units | dict(options.units)


def _check_names(where: str, names: tuple[str, ...], count: int | None) -> tuple[str, ...]:
    """Return names that are different, and as many as the checkpoint says. count: None for any number."""
    if not names or (count is not None and len(names) != count):
        found = f"{len(names)}: {show_value(list(names))}" if names else "none"
        expected = "names" if count is None else f"{count} names"
        why = "one for each value of the checkpoint" if names else "as the checkpoint has no names"
        raise PolicyError(f"{where}: found {found}, expected {expected}, {why}")
    if len(set(names)) < len(names):
        raise PolicyError(f"{where}: found {show_value(list(names))}, expected each name once")
    return names


def _read_data_set(file: Path) -> dict[str, Any]:
    try:
        content = parse_json(file.read_bytes(), str(file))
    except OSError as error:
        raise DocumentError(f"{file}: cannot be read: {error.strerror}") from error
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, dict) or not all(isinstance(value, dict) for value in features.values()):
        raise DocumentError(f"{file}: features: found {show_value(features)}, expected a data set's features")
    return dict(content)
