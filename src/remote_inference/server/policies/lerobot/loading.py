# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Builds LeRobot's network from a checked checkpoint, and requires every weight to come from its file."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lerobot.configs import FeatureType, PreTrainedConfig
from lerobot.policies.factory import get_policy_class
from lerobot.policies.rtc import RTCConfig
from safetensors import SafetensorError, safe_open

from remote_inference.base.contract.action_kinds import ANY_KIND
from remote_inference.base.documents.problems import show_value
from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.lerobot_format import STATE
from remote_inference.base.policy import Continuation, PolicyError, PolicySpec
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.file_content import Content, explain_damage, one_line, read_head
from remote_inference.server.policies.lerobot.checkpoint import (
    CONFIG_FILE,
    Checkpoint,
    LeRobotOptions,
    Names,
    find_names,
    find_renames,
)
from remote_inference.server.policies.lerobot.policy import LeRobotPolicy
from remote_inference.server.policies.lerobot.processors import Features, ProcessorFactory
from remote_inference.server.policies.torch_device import free_network, parse_device, using_device

# -- The precision of each tensor: LeRobot's own choice, or what the manifest says -----------------------
#
# LeRobot configures it in `config.json`: `dtype` of pi0, pi05 and xvla, and `load_vlm_weights` of smolvla,
# which puts the language model and the expert into bfloat16. Networks of the other kinds are in float32.

DTYPES = ("float32", "bfloat16")
LEROBOTS_WORDS = ("dtype", "load_vlm_weights")

_lock = threading.Lock()  # of those that build a language model


def set_precision(config: Any, dtype: str | None) -> None:
    """Let LeRobot build a network in `dtype`; None: in what `config.json` says.

    Raises PolicyError for a precision that LeRobot's networks do not have.
    """
    if dtype is None:
        return
    if dtype not in DTYPES:
        expected = f"{' or '.join(DTYPES)} for a policy of type {config.type}"
        raise PolicyError(f"model.dtype: found {dtype!r}, expected {expected}")
    if hasattr(config, "dtype"):
        config.dtype = dtype
    if hasattr(config, "load_vlm_weights"):
        config.load_vlm_weights = dtype == "bfloat16"


def cast(network: Any, dtype: str | None) -> None:
    """Cast what LeRobot does not build in `dtype` itself; None: nothing."""
    if dtype == "float32":
        network.float()
    elif dtype == "bfloat16" and not any(hasattr(network.config, word) for word in LEROBOTS_WORDS):
        network.bfloat16()
        for module in network.modules():
            if next(module.parameters(recurse=False), None) is not None:
                module.register_forward_pre_hook(_follow_weights, with_kwargs=True)


def _follow_weights(
    module: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Cast what a module is given to the precision of its weights: LeRobot makes some of it in float32."""
    dtype = next(module.parameters(recurse=False)).dtype

    def follow(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return tuple(map(follow, arguments)), {key: follow(value) for key, value in keywords.items()}


def count_dtypes(network: Any) -> dict[str, int]:
    """Return how many floating-point tensors of a network are in which precision, by torch's name."""
    tensors = [tensor for tensor in network.state_dict().values() if tensor.is_floating_point()]
    return dict(Counter(str(tensor.dtype).removeprefix("torch.") for tensor in tensors))


@contextmanager
def without_pretrained_language_model(config: Any) -> Iterator[None]:
    """Have LeRobot build a language model from its configuration within, instead of loading its weights.

    The checkpoint has weights for all of it, and nothing but the precision stays of those loaded before.
    """
    if not getattr(config, "load_vlm_weights", False):
        yield
        return
    from lerobot.policies.smolvla import smolvlm_with_expert  # noqa: PLC0415  not every policy needs it

    with _lock:
        loader = smolvlm_with_expert.AutoModelForImageTextToText
        smolvlm_with_expert.AutoModelForImageTextToText = _Builder
        try:
            yield
        finally:
            smolvlm_with_expert.AutoModelForImageTextToText = loader


class _Builder:
    """Replaces transformers' class: makes a model from its configuration as that class would load it."""

    @staticmethod
    def from_pretrained(name: str, *, torch_dtype: str, **_: Any) -> Any:
        from transformers import AutoConfig, AutoModelForImageTextToText  # noqa: PLC0415

        config = AutoConfig.from_pretrained(name, local_files_only=True)
        return AutoModelForImageTextToText.from_config(config, dtype=torch_dtype)


EMPTY_CAMERA = "observation.images.empty_camera_"  # LeRobot's name of cameras that no robot has
LANGUAGE_SUFFIXES = frozenset({".jinja", ".json", ".model", ".txt"})  # of tokenizers' files: no weights

# What LeRobot's own loop does and a server does not: keys of the configuration, the value without, and why.
LEFT_OUT = {
    "temporal_ensemble_coeff": (None, "the robot's node has it: `merge_mode: ensemble`"),
    "use_amp": (False, "`dtype` of the manifest's model says in which precision a policy is computed"),
}


def load_checkpoint(checkpoint: Checkpoint, source: ModelSource, options: LeRobotOptions) -> LeRobotPolicy:
    """Return the policy of a checked checkpoint. Raises PolicyError, DeviceError or DocumentError."""
    device = parse_device(source.device)
    with using_device(source.device):  # LeRobot itself would silently take another one
        torch.zeros(1, device=device)
    language_model = _find_language_model(checkpoint, options)
    config = _read_config(checkpoint)
    features = _find_features(checkpoint, config)
    notes = find_renames(checkpoint, [*features.image_shapes, *([STATE] if features.state_dim else [])])
    names, units = find_names(options, checkpoint.folder, features.state_dim, features.action_dim)
    _adapt(config, source, options, device, language_model)
    pairs = ProcessorFactory(checkpoint, features, device, _load_tokenizer(checkpoint, language_model))
    pairs.check_normalization(config)
    network = _load_network(checkpoint, config, source.dtype)
    noise_shape = checkpoint.family.noise_shape
    try:
        dtypes = count_dtypes(network)
        language_files = _find_language_files(checkpoint, config, language_model)
        fingerprint = _fingerprint(checkpoint, dtypes, options, names, language_files)
        continues = network.supports_rtc() and hasattr(config, "rtc_config")
        spec = PolicySpec(
            name=checkpoint.kind,
            revision=fingerprint,
            fingerprint=fingerprint,
            state_names=names.state,
            action_names=names.action,
            image_shapes=features.image_shapes,
            chunk_size=1,  # until the trial
            trained_fps=names.fps,
            observation_steps=features.steps or 1,
            continuation=Continuation.GUIDANCE if continues else Continuation.NONE,
            units=units,
            kinds=dict.fromkeys(names.action, ANY_KIND) if pairs.makes_absolute else {},
            reads_task=bool(checkpoint.family.language_files),
            dtype="bfloat16" if "bfloat16" in dtypes else "float32",
            notes=notes,
            state_ranges=pairs.find_state_ranges(names.state),
            action_ranges=pairs.find_action_ranges(names.action),
        )
        shape = noise_shape(config) if noise_shape else None
        compiled = checkpoint.family.compiled if options.compile else ()
        return LeRobotPolicy(network, spec, pairs, shape, compiled)
    except BaseException:
        free_network(network, device)
        raise


def _find_language_model(checkpoint: Checkpoint, options: LeRobotOptions) -> Path | None:
    if not options.language_model:
        return None
    folder = checkpoint.folder / options.language_model
    if not folder.is_dir():
        raise PolicyError(f"model.options: language_model: {folder}: found no folder")
    return folder


def _read_config(checkpoint: Checkpoint) -> Any:
    file, raw = checkpoint.folder / CONFIG_FILE, checkpoint.config
    if not checkpoint.family.has_time_axis and (steps := raw.get("n_obs_steps", 1)) != 1:
        found = f"{file}: n_obs_steps: found {show_value(steps)}"
        raise PolicyError(f"{found}, expected 1 for a policy of type {checkpoint.kind}")
    for key, (expected, reason) in LEFT_OUT.items():
        if (value := raw.get(key, expected)) != expected:
            found = f"{file}: {key}: found {show_value(value)}"
            raise PolicyError(f"{found}, expected {show_value(expected)}: {reason}")
    try:
        return PreTrainedConfig.from_pretrained(str(checkpoint.folder), local_files_only=True)
    except Exception as error:  # LeRobot and its parser raise what they like
        raise PolicyError(f"{file}: {one_line(error)}") from error


def _find_features(checkpoint: Checkpoint, config: Any) -> Features:
    """Return what the policy takes and gives. Raises PolicyError for what no robot sends."""
    file = checkpoint.folder / CONFIG_FILE
    if config.action_feature is None:
        outputs = sorted(config.output_features or {})
        raise PolicyError(f"{file}: output_features: found {outputs}, expected action")
    state_dim = None
    image_shapes = {}
    for name, feature in (config.input_features or {}).items():
        if feature.type is FeatureType.VISUAL and not name.startswith(EMPTY_CAMERA):
            channels, height, width = feature.shape
            if channels != 3:
                found = f"{file}: input_features.{name}: found {channels} channels"
                raise PolicyError(f"{found}, expected 3: RGB")
            image_shapes[name] = (height, width, channels)
        elif name == STATE:
            (state_dim,) = feature.shape
        elif feature.type is not FeatureType.VISUAL:
            raise PolicyError(f"{file}: input_features.{name}: robots send images and {STATE} only")
    (action_dim,) = config.action_feature.shape
    steps = config.n_obs_steps if checkpoint.family.has_time_axis else None
    return Features(state_dim, action_dim, image_shapes, steps)


def _adapt(
    config: Any,
    source: ModelSource,
    options: LeRobotOptions,
    device: torch.device,
    language_model: Path | None,
) -> None:
    """Set what the manifest decides, and leave out weights that LeRobot would fetch to overwrite them."""
    config.device = str(device)
    if hasattr(config, "pretrained_backbone_weights"):
        config.pretrained_backbone_weights = None
    if hasattr(config, "compile_model"):
        config.compile_model = False  # how it was trained; the first robots would wait for the compiler
    set_precision(config, source.dtype)
    if language_model and hasattr(config, "vlm_model_name"):
        config.vlm_model_name = str(language_model)
    if hasattr(config, "rtc_config"):
        rtc = config.rtc_config or RTCConfig()
        config.rtc_config = replace(
            rtc,
            enabled=True,
            debug=False,  # it would keep every step of every request
            execution_horizon=options.execution_horizon or rtc.execution_horizon,
            max_guidance_weight=options.max_guidance_weight or rtc.max_guidance_weight,
        )


def _load_tokenizer(checkpoint: Checkpoint, language_model: Path | None) -> Any:
    """Return the tokenizer of the preprocessor, or None when it has none."""
    step = checkpoint.pre.find_step("tokenizer_processor")
    if step is None:
        return None
    from transformers import AutoTokenizer  # noqa: PLC0415  not every policy needs the library

    name = str(language_model or step.get("tokenizer_name"))
    try:
        return AutoTokenizer.from_pretrained(name, local_files_only=True)
    except Exception as error:  # as the tokenizers do
        place = f"{checkpoint.pre.file}: tokenizer_processor.tokenizer_name"
        expected = f"a folder in model.options: language_model ({one_line(error)})"
        problem = f"found {name!r}, which is not on this machine, expected {expected}"
        raise PolicyError(f"{place}: {problem}") from error


def _load_network(checkpoint: Checkpoint, config: Any, dtype: str | None) -> Any:
    """Return the network with the weights of the checkpoint's file, all of them and nothing else."""
    file = checkpoint.weights_file
    try:
        with safe_open(file, framework="pt"):
            pass
    except (SafetensorError, OSError) as error:
        problem = explain_damage(read_head(file), Content.SAFETENSORS, error)
        raise PolicyError(f"{file}: {problem}") from error
    loader = _WeightsLoader(get_policy_class(checkpoint.kind), dtype)
    network: Any = None
    try:
        with without_pretrained_language_model(config):
            network = loader.policy_class.from_pretrained(
                str(checkpoint.folder), config=config, strict=True, local_files_only=True
            )
        problem = loader.problem
    except Exception as error:  # LeRobot raises what it likes
        problem = loader.problem or one_line(error)
    if problem:  # outside the handler: the exception would hold the network's memory
        if network is not None:
            free_network(network, torch.device(config.device))
        raise PolicyError(f"{file}: does not fit {CONFIG_FILE}: {problem}")
    return network.eval().requires_grad_(False)  # guidance would record the gradients of all weights


class _WeightsLoader:
    """Records errors when weights are loaded: some of LeRobot's classes only print them.

    dtype: of the manifest. The network is cast before, so that no weight is rounded on its way.
    """

    def __init__(self, policy_class: Any, dtype: str | None) -> None:
        self.problem = "LeRobot has read no weights from it"

        def load_state_dict(network: Any, *arguments: Any, **keywords: Any) -> Any:
            cast(network, dtype)
            try:
                found = policy_class.load_state_dict(network, *arguments, **keywords)
            except Exception as error:
                self.problem = one_line(error)
                raise
            self.problem = ""
            return found

        self.policy_class: Any = type(
            policy_class.__name__, (policy_class,), {"load_state_dict": load_state_dict}
        )


def _find_language_files(checkpoint: Checkpoint, config: Any, language_model: Path | None) -> list[Path]:
    """Return the files that say how a task becomes numbers, in the order of their names."""
    if language_model:
        folders = [language_model]
    else:
        step = checkpoint.pre.find_step("tokenizer_processor") or {}
        found = (step.get("tokenizer_name"), getattr(config, "vlm_model_name", None))
        folders = [folder for name in dict.fromkeys(found) if name and (folder := _find_folder(name))]
    return [
        file for folder in folders for file in sorted(folder.iterdir()) if file.suffix in LANGUAGE_SUFFIXES
    ]


def _find_folder(name: str) -> Path | None:
    """Return the folder of that name, or that in which a hub's files of the name are cached, perhaps not all.

    None when there is neither: LeRobot says so when it reads the files.
    """
    from huggingface_hub import try_to_load_from_cache  # noqa: PLC0415  as transformers

    if (folder := Path(name)).is_dir():
        return folder
    for file in ("tokenizer_config.json", "tokenizer.json", "config.json"):
        try:
            found = try_to_load_from_cache(name, file)
        except ValueError:  # no hub has such a name
            return None
        if isinstance(found, str):
            return Path(found).parent
    return None


def _fingerprint(
    checkpoint: Checkpoint,
    dtypes: Mapping[str, int],
    options: LeRobotOptions,
    names: Names,
    language_files: list[Path],
) -> str:
    """Return a hash of everything that a chunk depends on; where the files lie does not count."""
    files = [checkpoint.weights_file, checkpoint.folder / CONFIG_FILE]
    for pipeline in (checkpoint.pre, checkpoint.post):
        files += [pipeline.file, *(pipeline.file.with_name(name) for name in sorted(pipeline.tensors))]
    settings = options.model_dump(include={"execution_horizon", "max_guidance_weight"})
    if options.compile:
        settings["compile"] = True
    dtype = dtypes if len(dtypes) > 1 else next(iter(dtypes))
    return make_fingerprint([*files, *language_files], {**settings, "dtype": dtype, "names": vars(names)})
