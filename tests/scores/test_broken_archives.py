"""Broken archives of logs, and runs that lack a file, are refused by name; a changed one, too."""

import json
import shutil
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest
from scores.test_harness_logs import rows_of, write_run

from lm_eval_ccat import ScoreTable
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.errors import BankError, CcatError
from lm_eval_ccat.integrations.logs import logs_of

DATA = Path(__file__).parent / "readers" / "data"
QUERY = {"metric": "includes", "task": "sums"}


def of_other_method(content: bytes) -> bytes:
    """The archive, its members compressed by a method that nobody knows."""
    at = content.index(b"PK\x01\x02")
    return content[: at + 10] + struct.pack("<H", 77) + content[at + 12 :]


def of_other_version(content: bytes) -> bytes:
    at = content.index(b"PK\x01\x02")
    return content[: at + 6] + struct.pack("<H", 195) + content[at + 8 :]


def locked(content: bytes) -> bytes:
    """The archive, its first member said to need a password."""
    at = content.index(b"PK\x01\x02")
    return content[: at + 8] + struct.pack("<H", 1) + content[at + 10 :]


def stored_anew(path: Path) -> Path:
    """The archive of Inspect without compression."""
    with zipfile.ZipFile(DATA / "sums_1.eval") as archive, zipfile.ZipFile(path, "w") as plain:
        from lm_eval_ccat.scores.readers.frameworks import _member

        for name in ("header.json", "summaries.json"):
            plain.writestr(name, _member(archive, name, 1 << 20))
    return path


@pytest.mark.parametrize("damage", [of_other_method, of_other_version, locked])
def test_an_archive_that_python_cannot_unpack_is_refused_by_its_name(damage, tmp_path):
    log = stored_anew(tmp_path / "a.eval")
    assert ScoreTable.read(log, **QUERY).n_items == 4
    log.write_bytes(damage(log.read_bytes()))
    with pytest.raises(CcatError, match="get it again, or leave it out") as refused:
        ScoreTable.read(log, **QUERY)
    assert str(log) in str(refused.value)
    with pytest.raises(BankError, match="get it again, or unpack it"):
        with logs_of([str(log.rename(tmp_path / "a.zip"))]):
            pass


@pytest.mark.long
def test_a_changed_byte_of_the_scores_is_refused_and_never_read_as_others(tmp_path):
    content, log = (DATA / "sums_1.eval").read_bytes(), tmp_path / "a.eval"
    with zipfile.ZipFile(DATA / "sums_1.eval") as archive:
        member = archive.getinfo("summaries.json")
    start, refusals = member.header_offset + 30 + len(member.filename), []
    for at in range(start, start + member.compress_size, 3):
        log.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(CcatError) as refused:
            ScoreTable.read(log, **QUERY)
        refusals.append(str(refused.value))
    assert any("Bad CRC-32 for file 'summaries.json'" in text for text in refusals)


def test_members_with_extra_fields_are_read_as_those_without(tmp_path):
    """Tools that write times of files, or sizes of 8 bytes, put them between name and content."""
    content, log, extra = (DATA / "sums_1.eval").read_bytes(), tmp_path / "a.eval", b"UT\x01\0\0"
    local_files, directory = b"", b""
    with zipfile.ZipFile(DATA / "sums_1.eval") as archive:
        members = archive.infolist()
    for member in members:
        name, start = member.filename.encode(), member.header_offset
        about = struct.pack(
            "<HHHHHLLLHH", 20, 0, member.compress_type, 0, 33, member.CRC, member.compress_size,
            member.file_size, len(name), len(extra),
        )  # fmt: skip
        end = start + 30 + len(name) + int.from_bytes(content[start + 28 : start + 30], "little")
        packed = content[end : end + member.compress_size]
        offset = struct.pack("<HHHLL", 0, 0, 0, 0, len(local_files))
        directory += b"PK\x01\x02" + struct.pack("<H", 20) + about + offset + name + extra
        local_files += b"PK\x03\x04" + about + name + extra + packed
    sizes = struct.pack("<HHLLH", len(members), len(members), len(directory), len(local_files), 0)
    log.write_bytes(local_files + directory + b"PK\x05\x06\0\0\0\0" + sizes)
    table, plain = (ScoreTable.read(file, **QUERY) for file in (log, DATA / "sums_1.eval"))
    assert table.scores.tolist() == plain.scores.tolist()


def test_a_log_that_is_cut_off_is_told_beside_others_and_alone(tmp_path):
    for file in DATA.glob("*.eval"):
        shutil.copy(file, tmp_path)
    cut = tmp_path / "sums_2.eval"
    cut.write_bytes(cut.read_bytes()[:-30])
    with pytest.raises(CcatError, match=r"sums_2\.eval: not readable as inspect_ai"):
        ScoreTable.read(tmp_path, **QUERY)
    (tmp_path / "sums_1.eval").unlink()
    for path in (tmp_path, cut):
        with pytest.raises(CcatError, match=r"sums_2\.eval: a log of Inspect that is cut off"):
            ScoreTable.read(path, **QUERY)


@pytest.mark.parametrize("n_samples", [30, 900])
def test_a_log_of_inspect_of_another_encoding_is_read_beside_others(tmp_path, n_samples):
    for n, encoding in enumerate(("utf-8", "utf-16", "utf-16-le")):
        samples = [
            {"id": k, "epoch": 1, "scores": {"includes": {"value": "CI"[k % 2]}}, "input": "?" * 99}
            for k in range(n_samples)
        ]
        run = {"task": "sums", "model": f"m{n}", "created": "2025-01-01T00:00:00", "config": {}}
        log = {"version": 2, "status": "success", "eval": run, "samples": samples}
        marked = "\ufeff" * (encoding == "utf-16-le") + json.dumps(log)
        (tmp_path / f"{n}.json").write_bytes(marked.encode(encoding))
    table = ScoreTable.read(tmp_path, **QUERY)
    assert table.models == ("m0", "m1", "m2") and table.scores.shape == (3, n_samples)


def test_a_run_of_helm_without_its_specification_is_told(tmp_path):
    with zipfile.ZipFile(DATA / "helm.zip") as archive:
        archive.extractall(tmp_path)
    spec = sorted(tmp_path.rglob("run_spec.json"))[-1]
    spec.unlink()
    with pytest.raises(CcatError, match=r"not readable as helm .*run_spec\.json") as refused:
        ScoreTable.read(tmp_path)
    assert str(spec.parent) in str(refused.value)


def test_a_cut_archive_of_logs_is_refused_with_a_remedy(tmp_path):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "x.json").write_text("{}" * 9999)
    for ending, mode in ((".tar.gz", "w:gz"), (".tar", "w")):
        file = tmp_path / f"a{ending}"
        with tarfile.open(file, mode) as bundle:
            bundle.add(tmp_path / "logs", "logs")
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(BankError, match="get it again, or unpack it and name the folder"):
            with logs_of([str(file)]):
                pass


@pytest.mark.parametrize("metric", ["exact_match", "*"])
def test_what_is_said_of_an_archive_names_it_and_no_temporary_folder(tmp_path, metric, ccat):
    for n, model in enumerate("abc"):
        write_run(tmp_path / "logs", model, rows_of([1, 0, n % 2, n // 2]))
    write_run(tmp_path / "logs", "lost", rows_of([1, 0, 1, 0])).unlink()
    archive = shutil.make_archive(str(tmp_path / "logs"), "zip", tmp_path, "logs")
    call = ["calibrate", archive, "--method", "paper", "-o"]
    banks = []
    for n in (1, 2):
        said = ccat(*call, tmp_path / f"{n}.bank", "--metric", metric)
        assert f"no samples of demo are beside the results: lost ({archive}/logs/lost/" in said.err
        [(_, _, bank)] = SuiteBank.load(tmp_path / f"{n}.bank").banks()
        assert all(source.startswith(f"{archive}/logs/") for source in bank.provenance["sources"])
        banks.append(bank.sha256)
    assert banks[0] == banks[1]
    err = ccat(*call, tmp_path / "no.bank", "--metric", "nope", code=2).err
    assert f"{archive}: no scores of metric 'nope'" in err
