# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
"""Serves an ONNX file with ONNX Runtime; torch is not needed.

`model.path` names the file, or a folder with a `model.onnx`. What the file must hold:
docs/reference/onnx_files.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from remote_inference.base.fingerprint import make_fingerprint
from remote_inference.base.policy import Continuation, DeviceError, DeviceLostError, Float32Array, PolicyError
from remote_inference.server.manifest.manifest import ModelSource
from remote_inference.server.policies.file_content import one_line
from remote_inference.server.policies.onnx.file import (
    ACTIONS,
    DELAY_INPUTS,
    NOISE,
    STATE,
    TASK,
    OnnxFile,
    OnnxOptions,
    Provider,
    read_onnx,
)
from remote_inference.server.policies.trained_policy import (
    ChunkProcessors,
    ModelInput,
    draw_noise,
    prefix_arrays,
    ranges_of,
    require_batch,
)

_MAX_BATCH = 64  # of a file that takes any batch
_DEVICE = re.compile(r"cpu|cuda(?::(\d+))?")
_PROVIDERS = {
    "tensorrt": "TensorrtExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "cpu": "CPUExecutionProvider",
}
# "CUDA failure 2: out of memory" passes; after any other one the process cannot use the device any more.
_CUDA_FAILURE = "CUDA failure "  # and the number of the driver's error
_DEVICE_LOST = re.compile(_CUDA_FAILURE + r"(?!2\b)\d+")


def load(source: ModelSource) -> OnnxPolicy:
    """Load the policy of a manifest. Raises what OnnxPolicy raises, DocumentError also for options."""
    options = source.read_options(OnnxOptions)
    if source.precision != "float32":
        expected = "'float32': an ONNX file has its own precision"
        raise PolicyError(f"model.dtype: found {source.dtype!r}, expected {expected}")
    return OnnxPolicy(source.require_path(), source.device, options.providers, source.settings)


class OnnxPolicy:
    """Serves the ONNX file at `path`, a file or a folder with `model.onnx`, on `device`: cpu, cuda or cuda:N.

    providers: as the option of that name. settings: what goes into the fingerprint besides the files. Raises
    PolicyError or DocumentError naming file and key when the file does not fit, and DeviceError, a
    PolicyError, when this machine cannot use the device or a provider.
    """

    draws_by_itself = True  # replicas may be called at once: the noise is an input of the file

    def __init__(
        self,
        path: str | Path,
        device: str = "cpu",
        providers: Sequence[Provider] = (),
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        chosen = _choose_providers(device, providers)
        file = read_onnx(path)
        self._session: Any = _open_session(file, chosen)
        self._path, self._inputs, self._batch = file.path, file.inputs, file.batch
        self._max_delay_steps = file.max_delay_steps
        self._description = description = file.description
        ones = np.ones(len(description.action_names), np.float32)
        self._action_mean: Float32Array = np.array(description.action_mean or 0 * ones, np.float32)
        self._action_std: Float32Array = np.array(description.action_std or ones, np.float32)
        self.spec = description.make_spec(
            fingerprint=make_fingerprint([file.path, *file.external_paths], settings or {}),
            observation_steps=description.observation_steps,
            continuation=Continuation.TRAINED if file.max_delay_steps else Continuation.NONE,
            max_batch=self._batch or _MAX_BATCH,
            samples=NOISE in self._inputs,
            reads_task=TASK in self._inputs,
            action_ranges=ranges_of(description.action_names, self._action_mean, self._action_std)
            if description.action_std
            else {},
        )

    def make_processors(self) -> ChunkProcessors:
        steps = self._description.observation_steps
        return ChunkProcessors(self._description, self._action_mean, self._action_std, steps)

    def predict(self, batch: Sequence[ModelInput]) -> list[Float32Array]:
        """Return one model-space chunk `[chunk_size, action_dim]` per input.

        A file with a fixed batch gets the last input again until the batch is full.
        """
        require_batch(batch, self.spec.max_batch)
        full = [*batch, *[batch[-1]] * ((self._batch or 0) - len(batch))]
        try:
            (chunks,) = self._session.run([ACTIONS], self._feed(full))
        except Exception as error:  # ONNX Runtime's errors share no class of their own
            text = one_line(error)
            if _DEVICE_LOST.search(text):
                raise DeviceLostError(text) from error
            raise PolicyError(f"{self._path}: {text}") from error
        return list(chunks[: len(batch)])

    def _feed(self, batch: Sequence[ModelInput]) -> dict[str, NDArray[Any]]:
        """Return the graph's inputs: images channels first, as uint8 from 0 to 255 or float32 from 0 to 1."""
        feed: dict[str, NDArray[Any]] = {STATE: np.stack([sample.state for sample in batch])}
        for index, feature in enumerate(self._description.image_features):
            images = np.stack([sample.images[index] for sample in batch])
            as_float = self._inputs[feature] == "float32"
            feed[feature] = images.astype(np.float32) / np.float32(255.0) if as_float else images
        if self._max_delay_steps:
            feed |= zip(DELAY_INPUTS, prefix_arrays(batch, self._max_delay_steps), strict=True)
        if TASK in self._inputs:
            feed[TASK] = np.array([sample.task for sample in batch], object)
        if NOISE in self._inputs:
            shape = (self.spec.chunk_size, self.spec.action_dim)
            feed[NOISE] = np.stack([draw_noise(sample, shape) for sample in batch])
        return feed

    def reset(self) -> None:
        """Do nothing: every chunk depends only on its own request."""

    def close(self) -> None:
        """Free the session's memory."""
        self._session = None


def _choose_providers(device: str, names: Sequence[Provider]) -> list[tuple[str, dict[str, Any]]]:
    """Return ONNX Runtime's names of the providers, with their options; the CPU's comes last."""
    match = _DEVICE.fullmatch(device)
    if match is None:
        raise PolicyError(f"model.device: found {device!r}, expected cpu, cuda or cuda:N")
    on_gpu = device != "cpu"
    wanted = names or (("cuda",) if on_gpu else ())
    chosen = [name for name in wanted if name != "cpu"]
    if bool(chosen) != on_gpu:
        fitting = "cuda or tensorrt among them" if on_gpu else "none or cpu"
        expected = f"{fitting}: model.device is {device!r}"
        raise PolicyError(f"model.options: providers: found {', '.join(names)}, expected {expected}")
    available = onnxruntime.get_available_providers()
    for name in chosen:
        if _PROVIDERS[name] not in available:
            there = ", ".join(known for known in _PROVIDERS if _PROVIDERS[known] in available)
            raise DeviceError(
                f"model.device: found {device!r}, which needs the provider {name}, but the installed "
                f"onnxruntime {onnxruntime.__version__} has only {there}; expected onnxruntime-gpu"
            )
    number = {"device_id": int(match[1] or 0)}
    return [*((_PROVIDERS[name], number) for name in chosen), (_PROVIDERS["cpu"], {})]


def _open_session(file: OnnxFile, providers: list[tuple[str, dict[str, Any]]]) -> Any:
    """Return ONNX Runtime's session. It gets all bytes from memory, and so opens no file by itself."""
    options = onnxruntime.SessionOptions()
    # Errors are raised and need no log, except for the reason why a GPU's provider does not start.
    options.log_severity_level = 3 if len(providers) > 1 else 4
    options.add_session_config_entry("session.load_model_format", "ONNX")
    # Threads that spin for the next request take the processor from the node's own.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if file.external:
        buffers = list(file.external.values())
        options.add_external_initializers_from_files_in_memory(
            list(file.external), buffers, [len(buffer) for buffer in buffers]
        )
    try:
        session = onnxruntime.InferenceSession(file.model, options, providers, enable_fallback=0)
    except Exception as error:  # ONNX Runtime's errors share no class of their own
        text = one_line(error)
        if _CUDA_FAILURE in text:
            raise DeviceError(f"model.device: {text}") from error
        raise PolicyError(f"{file.path}: {text}") from error
    used = session.get_providers()
    for name, _ in providers:
        if name not in used:  # it only warns when a provider's libraries cannot be loaded
            raise DeviceError(
                f"model.device: ONNX Runtime could not start {name}, it has only {', '.join(used)}: its "
                "version may not fit the driver, CUDA and cuDNN of this machine"
            )
    return session
