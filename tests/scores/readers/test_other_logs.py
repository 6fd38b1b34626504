"""Journals, and logs of other tools by the layouts that they document or as they wrote them."""

import json
import os
import shutil
import zipfile
from datetime import date
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scores.test_damaged import resealed

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import RunError, ScoreTableError, UnknownScoresError
from lm_eval_ccat.journal import JOURNAL, JournalFile
from lm_eval_ccat.metrics.scale import Scale
from lm_eval_ccat.records import Asks, Header, Item, Tell
from lm_eval_ccat.scores.readers.frameworks import helm_rows
from lm_eval_ccat.scores.table import READERS
from lm_eval_ccat.testing.methods import example_table
from lm_eval_ccat.testing.readers import ReaderSuite

DATA = Path(__file__).parent / "data"


class TestInspect(ReaderSuite):
    """Two runs of a task of four sums, written by inspect_ai 0.3.285 and its mock model."""

    reader = READERS.get("inspect_ai")
    query = {"metric": "includes", "task": "sums"}  # noqa: RUF012

    def write(self, folder: Path) -> Path:
        for file in DATA.glob("*.eval"):
            shutil.copy(file, folder)
        return folder

    def expected(self) -> ScoreTable:
        models = ["mockllm/good", "mockllm/poor"]
        return ScoreTable.from_arrays(
            [[1, 1, 1, 1], [1, 0, 1, 0]], models, ["q0", "q1", "q2", "q3"]
        )


def inspect_log(path: Path, model: str, samples: list[dict], status: str = "success") -> None:
    header = {"version": 2, "status": status, "eval": {"model": model, "task": "t"}}
    if path.suffix == ".json":
        path.write_text(json.dumps({**header, "samples": samples}))
        return
    with zipfile.ZipFile(path, "w") as archive:
        # What a run starts with does not know how it ends.
        start = {key: header[key] for key in ("version", "eval")}
        head = ("_journal/start.json", start) if status == "killed" else ("header.json", header)
        archive.writestr(head[0], json.dumps(head[1]))
        for s in samples:
            archive.writestr(f"samples/{s['id']}_epoch_{s['epoch']}.json", json.dumps(s))


def test_values_epochs_and_unfinished_runs_of_inspect(tmp_path, monkeypatch):
    values = [[True, "P"], ["yes", {"x": 0.25}], ["0.5", ["no", "number"]]]
    samples = [
        {"id": i, "epoch": e + 1, "scores": {"s": {"value": v}}}
        for i, both in enumerate(values)
        for e, v in enumerate(both)
    ]
    for ending in ("eval", "json"):
        file = tmp_path / f"a.{ending}"
        inspect_log(file, "m", samples, status="error")
        table = ScoreTable.read(file, metric="s")
        assert table.row_config == ("epoch=1", "epoch=2")
        assert np.array_equal(table.raw, [[1, 1, 0.5], [0.5, np.nan, np.nan]], equal_nan=True)
        assert "did not finish" in table.warnings[0]
        one = ScoreTable.read(file, metric="s/x")
        assert one.raw.tolist() == [[0.25]] and one.row_config == ("",)
    inspect_log(tmp_path / "k.eval", "m", samples, status="killed")
    assert "did not finish" in ScoreTable.read(tmp_path / "k.eval", metric="s").warnings[0]
    monkeypatch.setattr("lm_eval_ccat.scores.readers.frameworks.MAX_LINE", 10)
    with pytest.raises(ScoreTableError, match=r"header\.json has [\d,]+ bytes"):
        ScoreTable.read(DATA / "sums_1.eval")


def test_a_list_in_a_log_of_inspect_is_named_and_told_from_scores(tmp_path):
    for model in "ab":
        scores = {"parts": {"value": [1, 2]}, "right": {"value": "C"}}
        samples = [{"id": n, "epoch": 1, "scores": scores} for n in range(3)]
        inspect_log(tmp_path / f"{model}.eval", model, samples)
    table = ScoreTable.read(tmp_path, "right")
    assert table.models == ("a", "b") and not any("parts" in text for text in table.warnings)
    words = r"a\.eval: 'parts' came as lists or texts, .*; take another metric: right$"
    with pytest.raises(UnknownScoresError, match=words):
        ScoreTable.read(tmp_path, "parts")
    inspect_log(tmp_path / "c.json", "c", [])
    assert "c.json: no scores of single items in it" in ScoreTable.read(tmp_path).warnings[0]
    for model in "ab":
        inspect_log(tmp_path / f"{model}.eval", model, [{**s, "scores": {"parts": {"value": [1]}}}
                                                        for s in samples])  # fmt: skip
    with pytest.raises(UnknownScoresError, match="'parts' came as lists"):
        ScoreTable.read(tmp_path)


def test_a_model_without_the_metric_is_not_missing_in_silence(tmp_path):
    for model, value in (("a", 1.0), ("b ", 0.0), ("c", ["a list"])):
        scores = {"right": {"value": value}, "other": {"value": 0.5}}
        samples = [{"id": n, "epoch": 1, "scores": scores} for n in (1, 2)]
        inspect_log(tmp_path / f"{model}.eval", model, samples)
    table, others = (ScoreTable.read(tmp_path, metric) for metric in ("right", "other"))
    assert table.models == ("a", "b") and others.models == ("a", "b", "c")
    assert sum("without a score of right are left out: c" in text for text in table.warnings) == 1
    assert not any("left out" in text for text in others.warnings)


@pytest.mark.parametrize("first", ["eval", "samples"])
def test_a_log_of_inspect_is_known_whatever_the_order_of_its_keys(tmp_path, first):
    file = tmp_path / "a.json"
    inspect_log(file, "m", [{"id": 1, "epoch": 1, "scores": {"s": {"value": "C"}}}])
    log = json.loads(file.read_text()) | {"long": "x" * 100_000}
    file.write_text(json.dumps({key: log[key] for key in (first, "long", *sorted(log))}, indent=1))
    assert ScoreTable.read(tmp_path).raw.tolist() == [[1.0]]


class Unpacked(ReaderSuite):
    """A log that the framework itself wrote (`data/README.md`), about numbers even and odd."""

    __test__ = False

    def write(self, folder: Path) -> Path:
        with zipfile.ZipFile(DATA / f"{self.reader.name}.zip") as archive:
            archive.extractall(folder)
        return folder


class TestHelm(Unpacked):
    """The perturbed copies, on which the poor model is wrong where it is right else, stay out."""

    __test__ = os.name == "posix"  # the names of its folders hold a colon
    reader = READERS.get("helm")
    query = {  # noqa: RUF012
        "metric": "exact_match",
        "task": "simple_mcqa:num_train_trials=2,data_augmentation=lower",
    }

    def expected(self) -> ScoreTable:
        models, items = ["parity/good", "parity/poor"], ["id38", "id41", "id60"]
        return ScoreTable.from_arrays([[1, 1, 1], [1, 0, 1]], models, items)


class TestLighteval(Unpacked):
    """Its rows are shuffled; items are numbered as in the data set: 24, 37, 41, 58."""

    __test__ = os.name == "posix"  # the names of its files hold a bar
    reader = READERS.get("lighteval")
    query = {"metric": "em", "task": "parity|0"}  # noqa: RUF012

    def expected(self) -> ScoreTable:
        models = ["parity/good", "parity/poor"]
        return ScoreTable.from_arrays([[1, 1, 1, 1], [1, 0, 0, 1]], models, [0, 1, 2, 3])


class TestEveryEvalEver(Unpacked):
    __test__ = True
    reader = READERS.get("every_eval_ever")
    query = {"task": "parity", "metric": "exact-match"}  # noqa: RUF012

    def expected(self) -> ScoreTable:
        models, items = ["parity/yes", "parity/no"], ["0", "1", "2", "3"]
        return ScoreTable.from_arrays(
            [[1, 1, 1, 1], [1, 0, 0, 1]], models, items, scale=Scale(0, 1)
        )


@pytest.mark.parametrize("lower", [False, True])
def test_every_eval_ever_states_which_end_of_a_scale_is_better(tmp_path, lower):
    for file in TestEveryEvalEver().write(tmp_path).rglob("*.json"):
        content = json.loads(file.read_text())
        for result in content["evaluation_results"]:
            result["metric_config"]["lower_is_better"] = lower
        file.write_text(json.dumps(content))
    table = ScoreTable.read(tmp_path, **TestEveryEvalEver.query)
    assert table.scale == Scale(0, 1, higher_is_better=not lower)
    correct = [[1, 1, 1, 1], [1, 0, 0, 1]]
    assert np.array_equal(table.scores, [[1 - x if lower else x for x in row] for row in correct])


def test_helm_offers_scores_alone(tmp_path):
    metrics = {o.metric for o in TestHelm.reader.outcomes(TestHelm().write(tmp_path))}
    kinds = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
    assert metrics == {*kinds, *(f"{kind}@5" for kind in kinds)}


def test_trials_of_helm_are_configs(tmp_path):
    table = ScoreTable.read(TestHelm().write(tmp_path), **TestHelm.query)
    assert table.row_config == ("trial=0", "trial=1") * 2


def test_details_of_the_first_open_llm_leaderboard(tmp_path):
    for day, acc in (("2023-09-03T10-57-04.203304", 1.0), ("2022-09-03T10-57-04.203304", 0.5)):
        folder = tmp_path / "details_org__model" / day  # of two runs the later one counts
        folder.mkdir(parents=True)
        # Few-shot examples before the question may differ between runs of the same documents.
        columns = {"full_prompt": [day + "p", day + "q"], "example": ["p", "q"]}
        columns |= {"metrics": [f"{{'acc': {acc}, 'acc_norm': 0.0}}"] * 2}
        file = folder / f"details_harness|arc:challenge|25_{day}.parquet"
        parquet.write_table(pa.table(columns), file)
    table = ScoreTable.read(tmp_path, metric="acc")
    assert table.models == ("org/model",) and table.task == "harness|arc:challenge|25"
    assert table.raw.tolist() == [[1.0, 1.0]]
    assert list(table.doc_hashes) == [sha256(text).hexdigest() for text in (b"p", b"q")]


def test_a_sample_of_lighteval_has_its_own_number_also_where_that_is_0(tmp_path):
    """Rows are shuffled: the first document of the data set may stand anywhere."""
    folder = tmp_path / "details" / "org" / "m" / "2025-01-01T00-00-00"
    folder.mkdir(parents=True)
    documents = [{"id": n, "query": f"question {n}"} for n in (2, 0, 1)]
    columns = {"doc": documents, "metric": [{"em": n / 2} for n in (2, 0, 1)]}
    parquet.write_table(pa.table(columns), folder / "details_t_2025-01-01T00-00-00.parquet")
    table = ScoreTable.read(tmp_path)
    assert (table.doc_ids, table.raw.tolist()) == ((0, 1, 2), [[0.0, 0.5, 1.0]])


# -- the journal of a run gives its scores to who asks for partial runs, and to nobody else --------


def write_journal(folder, models, docs=range(6), drawn=False):
    task = {"name": "toy_task", "metric": "toy", "filter": None, "settings": {}}
    scale = {"low": 0.0, "high": 1.0, "higher_is_better": True, "cap": None}
    lines = [Header(task=task, report={"scale": scale})]
    table = example_table()
    for model in models:
        items = {i: Item(("toy_task", table.doc_ids[i])) for i in docs}
        pairs = [(model, item) for item in items.values()]
        draws = [0.1 if drawn else None] * len(pairs)
        lines.append(Asks(pairs=pairs, draws=draws, after=[0] * len(pairs)))
        own = table.select([model]).scores[0]
        lines += [Tell(model=model, item=item, score=float(own[i])) for i, item in items.items()]
    folder.mkdir()
    JournalFile(folder / JOURNAL).append(lines)
    with (folder / JOURNAL).open("a") as stream:
        stream.write('{"op": "tell", "mod')
    return folder


def test_a_journal_has_scores_of_its_scale_and_says_who_was_asked_at_random(tmp_path):
    """The run keeps them from 0 to 1; one model's draws are no draws of another."""
    items = [Item(("toy_task", doc_id)) for doc_id in range(2)]
    task = {"name": "toy_task", "metric": "ter", "filter": "none", "settings": {}}
    lines = [Header(task=task, report={"scale": Scale(0, 200, False).to_dict()})]
    for model, draw in ("drawn", 0.5), ("chosen", None):
        lines.append(Asks(pairs=[(model, i) for i in items], draws=[draw] * 2, after=[0, 0]))
        lines += [Tell(model=model, item=i, score=x) for i, x in zip(items, (0.25, 1.0))]
    JournalFile(tmp_path / JOURNAL).append(lines)
    table = ScoreTable.read(tmp_path, partial=True)
    assert table.raw.tolist() == [[150, 0], [150, 0]]  # 200 is the worst
    assert dict(zip(table.models, table.chosen)) == {"drawn": "drawn", "chosen": "adaptive"}


def test_only_who_asks_for_partial_runs_gets_the_scores(tmp_path):
    run = write_journal(tmp_path / "run", ["m02", "m09"])
    with pytest.raises(
        ScoreTableError, match=r"not full results; `bank update` takes it, `board check`"
    ):
        ScoreTable.read(run)
    table = ScoreTable.read(run, partial=True)
    assert table.chosen == ("adaptive", "adaptive") and table.task == "toy_task"
    assert np.allclose(table.raw, example_table().select(["m02", "m09"]).raw[:, :6])
    assert table.select(["m09"]).chosen == ("adaptive",)
    drawn = write_journal(tmp_path / "drawn", ["m02"], drawn=True)
    assert ScoreTable.read(drawn, partial=True).chosen == ("drawn",)
    text = (drawn / JOURNAL).read_text()
    spaced = resealed((run / JOURNAL).read_bytes().splitlines()[:-1])  # as lines once were
    assert b'"op": "header"' in spaced
    (run / JOURNAL).write_bytes(spaced)
    assert np.array_equal(ScoreTable.read(run, partial=True).raw, table.raw)
    (drawn / JOURNAL).write_text(text.replace('"score":0.', '"score":0.1', 1))
    with pytest.raises(RunError, match="does not fit its seal"):
        ScoreTable.read(drawn, partial=True)


@pytest.mark.long
def test_bank_update_takes_a_run_directory_and_dates_the_bank(tmp_path):
    known = example_table().without(["m02", "m09"])
    known.write(tmp_path / "known.parquet")
    calibrate(known, "default").save(tmp_path / "b.bank.json")
    run = write_journal(tmp_path / "run", ["m02", "m09"], docs=range(0, 40, 3))
    out = tmp_path / "new.bank.json"
    arguments = ["bank", "update", str(tmp_path / "b.bank.json"), "--scores", str(run)]
    arguments += ["--calibrated_on", str(tmp_path / "known.parquet")]
    assert main([*arguments, "-o", str(out)]) == 0
    new = ItemBank.load(out)
    assert {"m02", "m09"} <= set(new.models) and new.made == date.today().isoformat()


def test_what_counted_nothing_is_no_score(tmp_path):
    spec = {"name": "t:model=m", "adapter_spec": {"model": "m"}}
    (tmp_path / "run_spec.json").write_text(json.dumps(spec))
    stats = [
        {"name": {"name": name}, "count": count, "mean": mean}
        for name, count, mean in (("exact_match", 1, 1.0), ("f1_score", 0, 0.0))
    ]
    log = tmp_path / "per_instance_stats.json"
    log.write_text(json.dumps([{"instance_id": "id1", "stats": stats}]))
    assert [(row.metric, row.score) for row in helm_rows(log, [])] == [("exact_match", 1.0)]
