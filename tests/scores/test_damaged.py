"""Real files with random damage: read in part, or refused by name with a remedy; never a crash."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report.synthetic import make_run
from scores.test_harness_logs import rows_of, sample_row, write_old_run, write_run

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.board import add, check, init, place, publish
from lm_eval_ccat.errors import CcatError
from lm_eval_ccat.live.result import state
from lm_eval_ccat.live.verify import verify
from lm_eval_ccat.scores.table import reader_of
from lm_eval_ccat.testing.methods import example_table

DATA = Path(__file__).parent / "readers" / "data"
#: Kinds of which some errors name a task or a row, and no file.
UNNAMED = ("board", "run directory")
#: Values that a stranger's file may hold where something else is expected.
ODD = (None, True, -1, 0, 1e308, "", "x" * 300, "\u202e", [], [[]], {}, {"a": {"b": 1}}, "NaN")
MUTATIONS, SAMPLE = 200, 15  # of each kind: more than 2,000 in all, and those tried always


def harness(folder):
    for n, model in enumerate(("a", "b", "c")):
        scores = [(k * (n + 1)) % 2 for k in range(12)]
        write_run(folder, model, rows_of(scores, "acc"), compress=model == "c")
    pairs = [sample_row(k, {"bleu": [f"a b c {k}", f"a b d {k}"]}) for k in range(6)]
    write_run(folder, "p", pairs, task="pairs")


def old_harness(folder):
    write_old_run(folder / "run", "org/a", [1.0, 0.0, 1.0])


def unpacked(name):
    def write(folder):
        with zipfile.ZipFile(DATA / f"{name}.zip") as archive:
            archive.extractall(folder)

    return write


def inspect(folder):
    for file in DATA.glob("*.eval"):
        shutil.copy(file, folder)
    header = {"version": 2, "status": "success", "eval": {"model": "m", "task": "t"}}
    samples = [{"id": n, "epoch": 1, "scores": {"s": {"value": "C"}}} for n in range(5)]
    (folder / "x.json").write_text(json.dumps({**header, "samples": samples}))


def tables(folder):
    example_table().write(folder / "a.csv")
    example_table().write(folder / "b.parquet")


def read_scores(folder):
    for outcome in reader_of(folder).outcomes(folder)[:4]:
        ScoreTable.read(folder, metric=outcome.metric, task=outcome.task, filter=outcome.filter)


def bank(folder):
    calibrate(example_table(), "paper").save(folder / "b.bank.json")
    SuiteBank({"t": calibrate(example_table(), "paper")}).save(folder / "suite")


def read_bank(folder):
    ItemBank.load(folder / "b.bank.json")
    SuiteBank.load(folder / "suite")


def board(folder):
    table = example_table()
    table.write(folder / "t.csv")
    made = init(folder / "board", folder / "t.csv")
    some = table.select(["m03"]).take(np.arange(20))
    replace(some, row_model=("new",)).write(folder / "some.csv")
    assert place(made, folder / "some.csv").rows
    (made.path / "models.csv").write_text("model,size,link\nm00,7B,https://example.org\n")
    shutil.rmtree(folder / "board" / ".lock", ignore_errors=True)


def read_board(folder):
    check(folder / "board")
    publish(folder / "board", folder / "site")
    add(folder / "board", folder / "t.csv")


def run_directory(folder):
    make_run(folder / "run", n_models=2, n_items=40, n_calibration=6, budget=40)


def read_run(folder):
    ScoreTable.read(folder / "run" / "journal.jsonl", partial=True)
    state(folder / "run")
    verify(folder / "run")


KINDS = {
    "run directory": (run_directory, read_run),
    "harness": (harness, read_scores),
    "harness before 0.4.3": (old_harness, read_scores),
    "inspect": (inspect, read_scores),
    "helm": (unpacked("helm"), read_scores),
    "lighteval": (unpacked("lighteval"), read_scores),
    "every_eval_ever": (unpacked("every_eval_ever"), read_scores),
    "tables": (tables, read_scores),
    "bank": (bank, read_bank),
    "board": (board, read_board),
}


def changed(value, chance):
    """A JSON value in which one place holds something odd, lacks, or stands twice."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        kind = chance.random()
        if kind < 0.15:
            return {name: of for name, of in value.items() if name != key}
        if kind < 0.25:
            return {(f"{name}x" if name == key else name): of for name, of in value.items()}
        return {**value, key: changed(value[key], chance)}
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        if chance.random() < 0.2:
            return value[:at] + value[at : at + 1] + value[at:]
        return [*value[:at], changed(value[at], chance), *value[at + 1 :]]
    return chance.choice(ODD)


def resealed(lines: list[bytes]) -> bytes:
    """Lines of a journal or a ledger whose seals and links fit again, as a stranger can write."""
    out, link, hashed = [], "", hashlib.sha256()
    for line in filter(None, lines):
        values = json.loads(line) if line.startswith(b"{") and line.endswith(b"}") else None
        if not isinstance(values, dict) or not {"sha256", "chain"} & values.keys():
            return b"\n".join(lines)
        if "sha256" in values:
            del values["sha256"]
            text = json.dumps(values, ensure_ascii=False)
            body = text.encode("utf-8", "surrogatepass")[:-1]
            hashed.update(body)
            body += b', "sha256": "%s"}' % hashed.hexdigest().encode()
            hashed.update(body[body.rindex(b', "sha256"') :] + b"\n")
        else:
            values.pop("chain")
            body = json.dumps(values).encode()
            link = hashlib.sha256(f"{link}\n{body.decode()}".encode()).hexdigest()
            body = body[:-1] + f', "chain": "{link}"}}'.encode()
        out.append(body)
    return b"\n".join([*out, b""])


def damaged(content: bytes, name: str, chance) -> bytes:
    """A file's content with one thing changed: a value of its JSON, some bytes, or its end."""
    kind = chance.random()
    lines = content.split(b"\n")
    if kind < 0.6 and name.endswith((".json", ".jsonl")):
        whole = name.endswith(".json") or len(lines) < 3
        at = None if whole else chance.randrange(len(lines) - 1)
        try:
            value = changed(json.loads(content if at is None else lines[at]), chance)
        except ValueError:
            value = None
        text = json.dumps(value).encode("utf-8", "surrogatepass")
        if at is None:
            return text
        lines[at] = text
        return resealed(lines) if chance.random() < 0.7 else b"\n".join(lines)
    if kind < 0.8:
        at = chance.randrange(len(content) + 1)
        junk = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 9)))
        return content[:at] + junk + content[at + chance.randrange(9) :]
    if kind < 0.9 and len(lines) > 2:
        at = chance.randrange(len(lines))
        return b"\n".join([*lines[:at], lines[at], *lines[at:]])
    return content[: chance.randrange(len(content) + 1)]


EACH = pytest.param(range(SAMPLE, MUTATIONS), id="all", marks=pytest.mark.slow)


@pytest.mark.long
@pytest.mark.parametrize("seeds", [pytest.param(range(SAMPLE), id="sample"), EACH])
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_read_in_part_or_refused_by_its_name(kind, seeds, tmp_path):
    write, read = KINDS[kind]
    whole = tmp_path / "whole"
    whole.mkdir()
    write(whole)
    files = sorted(path for path in whole.rglob("*") if path.is_file() and path.stat().st_size)
    copy = tmp_path / "damaged"
    for seed in seeds:
        chance = random.Random(f"{kind} {seed}")
        shutil.copytree(whole, copy)
        file = chance.choice(files)
        target = copy / file.relative_to(whole)
        target.write_bytes(damaged(file.read_bytes(), file.name, chance))
        try:
            read(copy)
        except CcatError as error:
            text = str(error)
            assert text and text.count("\n") <= 3 and "Traceback" not in text, (kind, seed)
            assert kind in UNNAMED or str(copy) in text, (kind, seed, text)
        except Exception as error:
            raise AssertionError(f"{kind}, mutation {seed} of {file.name}") from error
        shutil.rmtree(copy)
