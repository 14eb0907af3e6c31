"""Settings of the experiments: one TOML file each, for the reader to change."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

SHIPPED = Path(__file__).parent / "settings"
SECTIONS = ("quick", "full")

Settings = Mapping[str, Any]


class SettingsError(ValueError):
    """A file of settings that cannot be used; the message says what to change."""


def read_settings(experiment: str, quick: bool, folder: Path | None = None) -> Settings:
    """Settings of one experiment: what both sections share, then the section asked for.

    Parameters
    ----------
    experiment : str
        "fig1" reads ``fig1.toml``.
    quick : bool
        Which section: "quick" or "full".
    folder : Path, optional
        Where to look first. A file that is not there is taken from the package, and so is every
        setting that a file leaves out.

    Returns
    -------
    mapping of str to value
    """
    name = f"{experiment}.toml"
    section = SECTIONS[0] if quick else SECTIONS[1]
    known = _section(SHIPPED / name, section)
    if folder is None:
        return MappingProxyType(known)
    if not folder.is_dir():
        raise SettingsError(f"the folder of settings {folder} does not exist")
    own = folder / name
    changed = _section(own, section) if own.is_file() else {}
    for key, value in changed.items():
        if key not in known:
            raise SettingsError(f"{own} sets {key!r}; known are {', '.join(known)}")
        if not _alike(value, known[key]):
            kind = type(known[key]).__name__
            raise SettingsError(f"{own}: {key} = {value!r} is not of the kind {kind}")
    return MappingProxyType(known | changed)


def _alike(value: Any, known: Any) -> bool:
    if isinstance(known, float):
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return type(value) is type(known)


def _section(path: Path, section: str) -> dict[str, Any]:
    try:
        parsed = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not a TOML file: {error}") from error
    shared = {key: value for key, value in parsed.items() if key not in SECTIONS}
    own: dict[str, Any] = parsed.get(section, {})
    return shared | own
