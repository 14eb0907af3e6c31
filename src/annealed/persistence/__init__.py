"""Models as files: no pickle, nothing executed, the same in later versions and other languages.

`container` is the outside (safetensors); `encoder` and `decoder` the inside, plain values and
objects of the `classes` that a file may hold, as the `schema` of each says; `models` puts it
together. `whole_files` writes whole or not at all; `locking` and `checkpoint` are for streams.
docs/model-files.md describes the format.
"""

from annealed.persistence.checkpoint import Checkpoint
from annealed.persistence.container import ModelFileError
from annealed.persistence.locking import CheckpointInUseError
from annealed.persistence.models import describe, load, save

__all__ = ["Checkpoint", "CheckpointInUseError", "ModelFileError", "describe", "load", "save"]
