"""Which reader reads a path: the one dispatch.

The package's own are asked first, in the order below. Another package offers
one as an entry point::

    [project.entry-points."lm_eval_ccat.readers"]
    mine = "my_package.my_reader:READER"
"""

from __future__ import annotations

from pathlib import Path

from ...errors import ScoreTableError
from ...plugins import Plugins
from .reader import Reader

_OWN = (
    "journal",
    "lm_eval.read",
    "lighteval",
    "long_form",
    "inspect_ai",
    "helm",
    "every_eval_ever",
)

READERS = Plugins(
    "reader",
    Reader,
    lambda: {name.split(".")[0]: f"{__package__}.{name}:READER" for name in _OWN},
)


def register(reader: Reader) -> Reader:
    """Make a reader known in this process, for programs and tests.

    Raises
    ------
    UsageError
        A reader of the package has this name.
    """
    return READERS.register(reader)


def reader_of(path: Path) -> Reader:
    """The reader of a file or directory.

    Raises
    ------
    ScoreTableError
        There is no such path, or nobody reads it.
    """
    if not path.exists():
        raise ScoreTableError(f"{path}: no such file or directory of scores")
    for reader in READERS:
        if reader.can_read(path):
            return reader
    kinds = "; ".join(reader.summary for reader in READERS)
    if path.is_dir():
        raise ScoreTableError(
            f"{path}: no samples_<task>_<date>.jsonl found; run the harness with --log_samples "
            f"(what can be read: {kinds})"
        )
    raise ScoreTableError(
        f"{path}: a score table is a .parquet or a .csv file, harness logs are a directory "
        f"(what can be read: {kinds})"
    )
