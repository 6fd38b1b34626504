"""Files are replaced in one step, on every system, and file names are safe."""

from __future__ import annotations

import os
import string
import sys
import types
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_ccat.files import replace_text, safe_name, sync_file

posix_only = pytest.mark.skipif(os.name != "posix", reason="rights, links and pipes of POSIX")


@posix_only
def test_a_file_is_on_disk_before_it_takes_the_place_of_the_old_one(tmp_path, monkeypatch):
    target = tmp_path / "f"
    replace_text(target, "old")
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (steps.append("sync"), fsync(fd)))
    monkeypatch.setattr(os, "replace", lambda *a: (steps.append("replace"), replace(*a)))
    replace_text(target, "new \u2192", private=True)
    assert steps == ["sync", "replace", "sync"] and target.read_text("utf-8") == "new \u2192"
    assert target.stat().st_mode & 0o077 == 0


def test_a_disk_that_refuses_leaves_the_old_file(tmp_path, monkeypatch):
    target = tmp_path / "f"
    replace_text(target, "old")

    def full(fd):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lm_eval_ccat.files.sync_file", full)
    with pytest.raises(OSError, match="No space"):
        replace_text(target, "new")
    assert target.read_text() == "old" and os.listdir(tmp_path) == ["f"]


def test_names_differ_where_the_system_ignores_case(monkeypatch):
    assert safe_name("GPT") == "GPT"
    for system in ("win32", "darwin"):
        monkeypatch.setattr(sys, "platform", system)
        assert safe_name("gpt") == "gpt" and safe_name("GPT").lower() != "gpt"


def test_windows_waits_for_a_reader_of_the_old_file(tmp_path, monkeypatch):
    refusals, replace = [PermissionError(13, "in use")] * 3, os.replace

    def in_use(*names):
        if refusals:
            raise refusals.pop()
        replace(*names)

    monkeypatch.setattr(os, "replace", in_use)
    with pytest.raises(PermissionError):
        replace_text(tmp_path / "f", "new")
    monkeypatch.setattr(sys, "platform", "win32")
    replace_text(tmp_path / "f", "new")
    assert not refusals and (tmp_path / "f").read_text() == "new"


@posix_only
def test_macos_syncs_past_the_cache_of_the_drive(monkeypatch):
    asked = []
    fcntl = types.SimpleNamespace(F_FULLFSYNC=51, fcntl=lambda *a: asked.append(a))
    monkeypatch.setattr(os, "fsync", lambda fd: asked.append(fd))
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "fcntl", fcntl)
    sync_file(7)
    fcntl.fcntl = lambda *a: exec("raise OSError(45, 'not supported')")
    sync_file(8)
    assert asked == [(7, 51), 8]


@given(st.text(max_size=300), st.text(max_size=300))
def test_names_are_safe_and_different_for_different_texts(a, b):
    name = safe_name(a)
    assert name and not name.startswith(".") and len(name) <= 130
    assert set(name) & set(string.punctuation + string.whitespace + "\0") <= set("-_.+")
    assert (name == safe_name(b)) == (a == b)


def test_no_name_is_that_of_a_windows_device():
    for device in ("con", "NUL", "com1", "Aux.json"):
        assert safe_name(device).startswith("_") and safe_name(device).lower() != f"_{device}"
    assert safe_name("console") == "console"


@pytest.mark.parametrize("letter", ["m", "模", "😀"])
def test_a_long_name_in_any_script_is_one_that_a_file_can_have(tmp_path, letter):
    names = [letter * n for n in (60, 119, 264)]
    for name in names:
        (tmp_path / f"{safe_name(name)}.jsonl").write_text(name)
    assert sorted(file.read_text() for file in tmp_path.iterdir()) == sorted(names)


@posix_only
def test_links_stay_and_what_is_no_file_is_written_to(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "there" / "f")
    replace_text(link, "new")
    assert link.is_symlink() and (tmp_path / "there" / "f").read_text() == "new"
    replace_text(Path(os.devnull), "nothing")
    assert not Path(os.devnull).is_file()
