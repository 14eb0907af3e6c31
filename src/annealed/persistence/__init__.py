"""Models as files: no pickle, nothing executed, the same in later versions and other languages.

`container` is the outside (safetensors); `encoder` and `decoder` the inside, plain values and the
objects in the table of `kinds`; `files` writes whole or not at all; `models` puts it together.
docs/model-files.md describes the format.
"""

from annealed.persistence.checkpoint import Checkpoint
from annealed.persistence.container import ModelFileError
from annealed.persistence.files import CheckpointInUseError
from annealed.persistence.models import describe, load, save

__all__ = ["Checkpoint", "CheckpointInUseError", "ModelFileError", "describe", "load", "save"]
