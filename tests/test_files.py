"""Files are replaced in one step, and file names are safe."""

from __future__ import annotations

import os
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.files import replace_text, safe_name


def test_a_file_is_on_disk_before_it_takes_the_other_s_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "f"
    replace_text(target, "old")
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("sync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda *a: (steps.append("replace"), replace(*a)))
    replace_text(target, "new \u2192", private=True)
    assert steps[:2] == ["sync", "replace"] and target.read_text("utf-8") == "new \u2192"
    assert len(steps) == 3 or os.name != "posix"  # the folder too
    assert target.stat().st_mode & 0o077 == 0 or os.name != "posix"


def test_a_disk_that_refuses_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "f"
    replace_text(target, "old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        replace_text(target, "new")
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["f"]


@given(st.text(max_size=300), st.text(max_size=300))
def test_names_are_safe_and_different_for_different_texts(a: str, b: str) -> None:
    name = safe_name(a)
    assert name and not name.startswith(".") and len(name) <= 130
    assert set(name) & set(string.punctuation + string.whitespace + "\0") <= set("-_.+")
    assert (name == safe_name(b)) == (a == b)


def test_no_name_is_that_of_a_windows_device() -> None:
    for device in ("con", "NUL", "com1", "Aux.json"):
        assert safe_name(device).startswith("_") and safe_name(device).lower() != f"_{device}"
    assert safe_name("console") == "console"


@pytest.mark.skipif(os.name != "posix", reason="links and pipes of POSIX")
def test_links_stay_and_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "f")
    replace_text(link, "new")
    assert link.is_symlink() and (tmp_path / "there" / "f").read_text() == "new"
    replace_text(Path(os.devnull), "nothing")
    assert not Path(os.devnull).is_file()
