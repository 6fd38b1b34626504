"""A conformance suite for readers of logs; see `ReaderSuite`."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import CcatError
from ..scores import ScoreTable
from ..scores.reading import files_at
from ..scores.table import READERS, Reader, reader_of


class ReaderSuite:
    """Checks that every reader must pass; derive from it, set `reader` and write a known log.

    Attributes
    ----------
    reader : Reader
        The reader to test, registered or installed.
    query : dict
        Arguments of `ScoreTable.read` for the log.
    """

    reader: Reader
    query: dict[str, Any] = {}  # noqa: RUF012  suites override it, none mutates it

    def write(self, folder: Path) -> Path:
        """Write a log into an empty folder; return the path to read."""
        raise AssertionError("a reader's suite must define write()")

    def expected(self) -> ScoreTable:
        """Return the models, items, raw scores and scale that the log holds."""
        raise AssertionError("a reader's suite must define expected()")

    @contextmanager
    def log(self) -> Iterator[Path]:
        """Yield the path of a new log."""
        with tempfile.TemporaryDirectory() as folder:
            yield self.write(Path(folder))

    def test_it_is_found_by_its_name_and_by_its_logs(self) -> None:
        assert READERS.get(self.reader.name) is self.reader and self.reader.summary
        with self.log() as path:
            assert reader_of(path) is self.reader

    def test_it_leaves_the_logs_of_others_alone(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "empty").mkdir()
            (root / "a.json").write_text('{"results": [1, 2')
            (root / "b.jsonl").write_text('{"x": 1}\n')
            (root / "c.bin").write_bytes(b"\x00\xff" * 50)
            (root / "d.eval").write_bytes(b"PK\x03\x04 not a zip")
            (root / "e.parquet.txt").write_text("")
            for path in (root, *root.iterdir()):
                assert not self.reader.can_read(path), path.name

    def test_the_scores_are_those_of_the_log(self) -> None:
        with self.log() as path:
            table = ScoreTable.read(path, **self.query)
        expected = self.expected()
        assert set(table.models) == set(expected.models)
        assert table.doc_ids == expected.doc_ids
        assert table.scale == expected.scale
        read = table.select(expected.models).model_scores(unit=False)
        assert np.allclose(read, expected.model_scores(unit=False), equal_nan=True)

    def test_a_second_reading_gives_the_same(self) -> None:
        with self.log() as path:
            first, second = (ScoreTable.read(path, **self.query) for _ in range(2))
        assert np.array_equal(first.raw, second.raw, equal_nan=True)
        assert (first.row_model, first.row_config) == (second.row_model, second.row_config)

    def test_it_says_what_can_be_asked_for(self) -> None:
        with self.log() as path:
            outcomes = self.reader.outcomes(path)
            table = ScoreTable.read(path, **self.query)
            assert (table.task, table.metric) in {
                (outcome.task, outcome.metric) for outcome in outcomes
            }
            for name in ("metric", "task"):
                query = {**self.query, name: "no_such_thing"}
                assert "no_such_thing" in _error(path, query)

    def test_a_log_cut_off_is_read_in_part_or_refused(self) -> None:
        with self.log() as path:
            for file in files_at(path, "*"):
                content = file.read_bytes()
                for share in (0.0, 0.3, 0.9):
                    file.write_bytes(content[: int(len(content) * share)])
                    # Any error but one of the package fails the test.
                    _error(path, self.query)
                file.write_bytes(content)


def _error(path: Path, query: Mapping[str, Any]) -> str:
    """Read a log; return the message of the package's error, empty if there is none."""
    try:
        ScoreTable.read(path, **query)
    except CcatError as error:
        return str(error)
    return ""
