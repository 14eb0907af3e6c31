"""What a checkpoint of `annealed stream` holds beside its model."""

from __future__ import annotations

import base64
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from annealed.cli.line_files import Written
from annealed.persistence.container import refuse
from annealed.persistence.schema import fields_of
from annealed.stored import Count, Finite, Positive
from annealed.tables.files.csv_reading import DELIMITERS
from annealed.tables.files.records import CSVFormat, JSONFormat, Records, split_records

_DIGEST = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class StreamState:
    """Where a stream stands; plain values, as they lie in the file.

    Parameters
    ----------
    consumed, bad : int
        Rows read and done with, and how many of them could not be read.
    target, columns, kinds
        What is learnt, from what.
    scored, mean, recent
        The figures so far.
    delimiter, names
        How rows of CSV are read; None and no names for JSON lines.
    begins : int
        Rows before the first of the source: learnt from another one, or from a file that this one
        has taken the place of.
    fingerprint : str
        Of the rows from there on.
    pending : str
        Records that have been answered, but wait to be learnt; base64.
    answers_size, answers_digest, metrics_size, metrics_digest
        How far the files of answers and of figures had come; None without one.
    """

    consumed: Positive
    bad: Count
    target: str | None
    columns: list[str]
    kinds: dict[str, str]
    scored: Count
    mean: Finite
    recent: Finite
    delimiter: str | None
    names: list[str]
    begins: Count
    fingerprint: str
    pending: str
    answers_size: Positive | None
    answers_digest: str | None
    metrics_size: Positive | None
    metrics_digest: str | None

    def to_plain(self) -> dict[str, Any]:
        """For `Checkpoint.save`."""
        return asdict(self)

    @classmethod
    def of(cls, values: Any, path: Path) -> Self:
        """From `Checkpoint.load`; ModelFileError if that can be no state of a stream."""
        if not isinstance(values, dict) or set(values) != set(cls.__dataclass_fields__):
            raise ValueError(
                f"{path} is a model, but no checkpoint of a stream: give another --checkpoint"
            )
        for name, field in fields_of(cls).items():
            if not field.rule.allows(values[name]):
                refuse(path, f"{name} of its stream must be {field.rule.words}")
        state = cls(**values)
        if not state._fits():
            refuse(path, "what it knows of its stream does not fit together")
        return state

    def _fits(self) -> bool:
        """Whether the parts agree with each other."""
        kinds = self.kinds
        known = sorted(kinds) == sorted(self.columns) and all(
            kind in ("number", "category") for kind in kinds.values()
        )
        counted = max(self.bad, self.scored, self.begins) <= self.consumed
        form = self.delimiter in DELIMITERS if self.names else self.delimiter is None
        digests = self.fingerprint, self.answers_digest, self.metrics_digest
        hashes = all(_DIGEST.fullmatch(digest) for digest in digests if digest is not None)
        files = (self.answers_size is None) == (self.answers_digest is None) and (
            self.metrics_size is None
        ) == (self.metrics_digest is None)
        return known and counted and form and files and hashes

    @property
    def format(self) -> CSVFormat | JSONFormat:
        """How records are read."""
        return JSONFormat() if self.delimiter is None else CSVFormat(self.delimiter, self.names)

    @property
    def answers(self) -> Written | None:
        """How far the file of answers had come."""
        return _written(self.answers_size, self.answers_digest)

    @property
    def metrics(self) -> Written | None:
        """How far the file of figures had come."""
        return _written(self.metrics_size, self.metrics_digest)

    def pending_records(self, path: Path) -> Records:
        """The records that wait to be learnt."""
        try:
            text = base64.b64decode(self.pending, validate=True)
        except ValueError:
            refuse(path, "rows that wait are not in base64")
        records, rest = split_records(text, quotes=self.delimiter is not None)
        if rest or len(records) > self.consumed:
            refuse(path, "rows that wait are no whole rows")
        return records


def _written(size: int | None, digest: str | None) -> Written | None:
    return None if size is None or digest is None else Written(size, digest)
