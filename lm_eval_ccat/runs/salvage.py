"""The sound part of a damaged journal, and how to resume from it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from ..errors import RunError
from ..files import replace_bytes, sync_folder
from .directory import RunDirectory
from .lines import FORMAT, Lines

JOURNAL = "journal.jsonl"


@dataclass(frozen=True)
class Condition:
    """How much of a journal can be relied on.

    Attributes
    ----------
    records : int
        Records of the longest sound prefix.
    lost : int
        Lines after it, a torn one included.
    damage : str or None
        What is wrong with the first line after it; None where nothing is, or where a crash tore
        the last line, which resuming mends by itself.
    version : int or None
        Version of the format; None without a sound header.
    chained : bool
        Whether its last line seals all lines before it.
    """

    records: int
    lost: int
    damage: str | None
    version: int | None
    chained: bool


def check_journal(run: str | Path) -> Condition:
    """Read a run's journal line by line up to the first damage.

    Parameters
    ----------
    run : path
        A run directory.

    Raises
    ------
    RunError
        There is no journal, or it cannot be read.
    """
    return _examine(_read(Path(run)), str(Path(run) / JOURNAL))[0]


def salvage_journal(run: str | Path) -> tuple[Condition, Path | None]:
    """Keep the longest sound prefix of a run's journal, so that the run can be resumed.

    The damaged journal, and a result drawn from it, stay beside it under new names.

    Returns
    -------
    condition : Condition
        Of the journal as it was.
    kept : Path or None
        Where the damaged journal is now; None if nothing was wrong and nothing was done.

    Raises
    ------
    RunError
        Another process uses the directory, not even the header is sound, or the disk refuses.
    """
    folder = RunDirectory(run)
    _read(folder.path)
    folder.take()
    try:
        data = _read(folder.path)
        condition, sound = _examine(data, str(folder.journal))
        if condition.damage is None:
            return condition, None
        if condition.version is None:
            raise RunError(
                f"{folder.journal}: not even the header is sound; nothing can be kept. Start a "
                "new run"
            )
        kept = _free_name(folder.path, "journal.damaged", ".jsonl")
        result = folder.path / "result.json"
        try:
            shutil.copyfile(folder.journal.path, kept)
            sync_folder(folder.path)
            if result.exists():
                result.rename(_free_name(folder.path, "result.damaged", ".json"))
            replace_bytes(folder.journal.path, sound, private=True)
        except OSError as error:
            raise RunError(f"cannot salvage {folder.path}: {error.strerror or error}") from error
        return condition, kept
    finally:
        folder.release()


def _read(folder: Path) -> bytes:
    try:
        return (folder / JOURNAL).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise RunError(f"{folder} holds no ranking (no {JOURNAL} in it)") from None
    except OSError as error:
        raise RunError(f"cannot read {folder / JOURNAL}: {error.strerror or error}") from error


def _examine(data: bytes, where: str) -> tuple[Condition, bytes]:
    """The condition of a journal's bytes, and the sound ones among them."""
    whole, _, torn = data.rpartition(b"\n")
    lines = whole.split(b"\n") if whole else []
    reader, damage, version, length = Lines(where), None, None, 0
    for line in lines:
        try:
            [record] = reader.read([line])
            if reader.count == 1:
                if record.get("format") != FORMAT:
                    raise RunError(f"{where}, line 1 is not the header of a journal")
                version = record.get("version")
        except RunError as error:
            damage = str(error).partition(";")[0]
            break
        length += len(line) + 1
    sound = 0 if version is None else reader.count
    lost = len(lines) - sound + bool(torn)
    return Condition(sound, lost, damage, version, reader.chained), data[:length]


def _free_name(folder: Path, stem: str, ending: str) -> Path:
    number = 1
    while (folder / f"{stem}-{number}{ending}").exists():
        number += 1
    return folder / f"{stem}-{number}{ending}"
