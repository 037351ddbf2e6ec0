# Copyright 2026 The remote_inference contributors
# SPDX-License-Identifier: Apache-2.0
# The types of what `FACE` names, for checkers of types.

from collections.abc import Mapping

from remote_inference.base.contract.commands.sink import (
    CommandInterface as CommandInterface,
)
from remote_inference.base.documents.document import (
    Document as Document,
    DocumentError as DocumentError,
    load_document as load_document,
)
from remote_inference.base.errors import (
    UserError as UserError,
)
from remote_inference.base.exchange import (
    Chunk as Chunk,
    ChunkStatus as ChunkStatus,
)
from remote_inference.base.fingerprint import (
    make_fingerprint as make_fingerprint,
)
from remote_inference.base.policy import (
    Continuation as Continuation,
    DeviceError as DeviceError,
    DeviceLostError as DeviceLostError,
    Float32Array as Float32Array,
    PastStep as PastStep,
    Policy as Policy,
    PolicyError as PolicyError,
    PolicyObservation as PolicyObservation,
    PolicySpec as PolicySpec,
    Processors as Processors,
    ServingMode as ServingMode,
    UpdatablePolicy as UpdatablePolicy,
)
from remote_inference.base.wire.commands.writer import (
    CommandReader as CommandReader,
    CommandWriter as CommandWriter,
)
from remote_inference.learn.environment import (
    ActionSpec as ActionSpec,
    EnvError as EnvError,
    Environment as Environment,
    EnvironmentObservation as EnvironmentObservation,
    EnvironmentSpec as EnvironmentSpec,
    EnvLostError as EnvLostError,
    Feature as Feature,
    FeatureKind as FeatureKind,
    Metrics as Metrics,
    Moment as Moment,
    RealTimeEnvironment as RealTimeEnvironment,
    Step as Step,
)
from remote_inference.learn.rollouts import (
    BlockingRolloutPool as BlockingRolloutPool,
    Curriculum as Curriculum,
    Group as Group,
    GroupPolicy as GroupPolicy,
    LocalPolicy as LocalPolicy,
    LocalTransport as LocalTransport,
    RayTransport as RayTransport,
    RolloutError as RolloutError,
    RolloutPool as RolloutPool,
    Sampling as Sampling,
    Trajectory as Trajectory,
)
from remote_inference.learn.rollouts.saving import (
    save_lerobot as save_lerobot,
    save_parquet as save_parquet,
)
from remote_inference.learn.weights import (
    SenderConfig as SenderConfig,
    WeightSender as WeightSender,
    WeightsError as WeightsError,
    WeightSyncer as WeightSyncer,
)
from remote_inference.learn.weights.shared_memory import (
    SharedMemoryListener as SharedMemoryListener,
)
from remote_inference.server.manifest.manifest import (
    ModelSource as ModelSource,
)
from remote_inference.server.schedulers import (
    Scheduler as Scheduler,
)

__version__: str
FACE: Mapping[str, tuple[str, ...]]
