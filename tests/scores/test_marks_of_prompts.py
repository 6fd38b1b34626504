"""Prompts are identity: marks of logs, tables and banks, what they cost, and what differs."""

import hashlib
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scores.test_harness_logs import sample_row, write_run

from lm_eval_ccat import ItemBank, ScoreTable, calibrate
from lm_eval_ccat.errors import BankMismatchError
from lm_eval_ccat.scores.grid import ScoreGrid
from lm_eval_ccat.scores.prompts import Prompts, compare_prompts, mark_of
from lm_eval_ccat.scores.reading import Query
from lm_eval_ccat.upkeep.update import update


def sha(text):
    return hashlib.sha256(text.encode()).hexdigest()


def asked(prompts, scores, hashed=True):
    """Rows of documents that were asked `prompts`, with the harness's hash of each, or without."""
    rows = []
    for doc_id, (prompt, score) in enumerate(zip(prompts, scores)):
        row = sample_row(doc_id, {"exact_match": float(score)})
        row["arguments"] = {"gen_args_0": {"arg_0": prompt, "arg_1": {"until": ["\n"]}}}
        text = prompt if isinstance(prompt, str) else prompt[0]
        row["prompt_hash"] = sha(text)
        rows.append(row if hashed else {k: v for k, v in row.items() if k != "prompt_hash"})
    return rows


TEXTS = [f"Question {n}?\nAnswer:" for n in range(3)]


def chat(texts, **more):
    """Messages as the harness logs them for a server."""
    return [[json.dumps([{"role": "user", "content": text, **more}])] for text in texts]


def test_marks_are_those_of_the_logs_own_hashes_or_arguments(tmp_path):
    write_run(tmp_path, "hashed", asked(TEXTS, [1, 0, 1]))
    write_run(tmp_path, "unhashed", asked(TEXTS, [0, 0, 1], hashed=False))
    table = ScoreTable.read(tmp_path)
    wanted = {n: sha(text)[:8] for n, text in enumerate(TEXTS)}
    assert table.prompt_marks("hashed") == table.prompt_marks("unhashed") == wanted
    assert wanted[0] == mark_of(TEXTS[0])


def test_messages_are_the_same_however_a_log_writes_them(tmp_path):
    write_run(tmp_path, "plain", asked(chat(TEXTS), [1, 0, 1]), chat_template="")
    write_run(tmp_path, "typed", asked(chat(TEXTS, type="text"), [0, 0, 1]), chat_template="")
    table = ScoreTable.read(tmp_path)
    assert table.prompt_marks("plain") == table.prompt_marks("typed")
    assert table.prompt_marks("plain")[0] == mark_of([{"content": TEXTS[0], "role": "user"}])
    assert not table.prompts.unlike.any()


def test_what_a_template_wrote_is_compared_with_what_the_same_template_wrote(tmp_path):
    def run(model, template, texts):
        rows = asked([f"<{template}>{text}" for text in texts], [1, 0, 1])
        write_run(tmp_path, model, rows, chat_template=template, chat_template_sha=sha(template))

    other = [text.replace("Question", "Q") for text in TEXTS]
    run("a", "im", TEXTS)
    run("b", "im", other)
    run("c", "inst", TEXTS)
    table = ScoreTable.read(tmp_path)
    a, b, c = (table.prompt_marks(model) for model in "abc")
    assert a[0] == f"~{sha('im')[:3]}{sha('<im>' + TEXTS[0])[:8]}" and len(a[0]) == 12
    refusal, doubt = compare_prompts(a, b, ("a", "b"))
    assert "the prompt of document 0 is" in refusal and "3 of 3 prompts differ" in refusal
    refusal, doubt = compare_prompts(a, c, ("a", "c"))
    assert not refusal and doubt.startswith("prompts unknown: a knows them only as another chat")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_table_keeps_the_prompts_of_each_model(tmp_path, ending):
    prompts = Prompts.of_rows([["70b499c5", None, "0a1b2c3d"], ["70b499c5", "1b2c3d4e", None]])
    table = ScoreTable.from_arrays(
        [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]], ["a", "b"], [2, 1, 0], prompts=prompts
    )
    file = tmp_path / f"t.{ending}"
    table.write(file)
    for kept in (table, ScoreTable.read(file), table.select(["b", "a"]), table.take(np.arange(3))):
        assert kept.prompt_marks("a") == {2: "70b499c5", 1: None, 0: "0a1b2c3d"}
        assert kept.prompt_marks("b") == {2: "70b499c5", 1: "1b2c3d4e", 0: None}


@pytest.mark.long
def test_a_bank_keeps_them_at_no_more_than_15_bytes_an_item_and_states_a_digest(tmp_path):
    n = 500
    texts = [f"What is {a}?" for a in range(n)]
    for model, skill in (("a", 0.2), ("b", 0.5), ("c", 0.9)):
        scores = np.random.default_rng(int(10 * skill)).random(n) < skill
        written = asked(texts, scores)
        write_run(tmp_path, model, written, chat_template="im", chat_template_sha=sha("im"))
    bank = calibrate(ScoreTable.read(tmp_path), "paper")
    sizes = []
    for kept in (bank, ItemBank.from_dict({**json.loads(saved(bank, tmp_path))})):
        assert kept.marks == ScoreTable.read(tmp_path).prompt_marks("a")
        assert kept.prompts_digest == bank.prompts_digest and len(bank.prompts_digest) == 12
        sizes.append(len(saved(kept, tmp_path)))

    without = replace(bank, prompts=None)
    assert without.prompts_digest is None and without.marks == {}
    assert 0 < sizes[0] - len(saved(without, tmp_path)) <= 15 * n + 40


def test_prompts_stay_those_of_their_models_where_a_model_without_a_score_is_left_out():
    grid = ScoreGrid()
    for model, score in (("silent", math.nan), ("able", 0.5), ("weak", 0.25)):
        grid.lay([(model, "")] * 2, [0, 1], [score] * 2, marks=[f"{model} {n}" for n in range(2)])
    table = grid.finish(Path("x"), Query(), "acc")
    assert table.models == ("able", "weak")
    for model in table.models:
        assert table.prompt_marks(model) == {0: f"{model} 0", 1: f"{model} 1"}


def saved(bank, folder):
    bank.save(folder / "x.bank.json")
    return (folder / "x.bank.json").read_bytes()


def test_models_that_were_asked_otherwise_are_named_and_not_added_to_a_bank(tmp_path):
    other = [text.replace("Answer", "A") for text in TEXTS]
    for model, texts, scores in (
        ("a", TEXTS, [1, 0, 1]), ("b", TEXTS, [0, 0, 1]), ("c", other, [1, 1, 0]),
    ):  # fmt: skip
        write_run(tmp_path, model, asked(texts, scores))
    table = ScoreTable.read(tmp_path)
    bank = calibrate(table, "paper", keep_scores=True)
    assert any("c: asked other prompts than most models" in w for w in bank.warnings)
    assert bank.marks == table.prompt_marks("a")
    bank = calibrate(table.select(["a", "b"]), "paper", keep_scores=True)
    assert not any("prompts" in w for w in bank.warnings)
    with pytest.raises(BankMismatchError, match="the prompt of document 0 is"):
        update(bank, table.select(["c"]))
    again = update(bank, table.select(["a"]))
    assert again.marks == bank.marks


def test_a_score_of_another_document_is_dropped_with_its_prompt(tmp_path):
    """Else a model would count as asked otherwise because of a score that does not count."""
    for model in "abc":
        rows = asked(TEXTS, [1, 0, 1])
        if model == "c":
            corrected = asked([TEXTS[0], "Corrected?", TEXTS[2]], [1, 1, 1])[1]
            rows[1] = corrected | {"doc_hash": sha("corrected")}
        write_run(tmp_path, model, rows)
    table = ScoreTable.read(tmp_path)
    assert np.isnan(table.raw).tolist() == [[False] * 3, [False] * 3, [False, True, False]]
    assert not table.prompts.unlike.any() and table.prompt_marks("c")[1] is None
    assert table.prompt_marks("b")[1] == sha(TEXTS[1])[:8]


def test_the_first_place_that_differs_is_named_where_both_texts_are_at_hand():
    marks = {7: mark_of("Question: 2")}, {7: mark_of("Query: 2")}
    refusal, _ = compare_prompts(*marks, texts=lambda ids: {ids[0]: ("Question: 2", "Query: 2")})
    assert "from character 4 on 'stion: 2' and 'ry: 2'" in refusal
    assert mark_of("Question: 2") in refusal and mark_of("Query: 2") in refusal
    assert compare_prompts({7: "0a1b2c3d"}, {8: "1b2c3d4e"})[1].startswith("prompts unknown")
    assert compare_prompts({7: "0a1b2c3d"}, {7: "0a1b2c3d"}) == ("", "")


def test_rows_are_unlike_by_another_prompt_not_by_another_template():
    """Marks of what two templates wrote differ for the same prompt, and say nothing."""
    plain, other, written = "70b499c5", "0a1b2c3d", "~abc9f86d081"
    prompts = Prompts((plain, other, written), np.array([[0, 0], [0, 0], [0, 1], [2, 2], [-1, 0]]))
    assert prompts.unlike.tolist() == [False, False, True, False, False]
    assert prompts.common == (plain, plain)


def test_of_equally_common_prompts_the_first_counts():
    marks = ("70b499c5", "0a1b2c3d", "4e5f6a7b")
    assert Prompts(marks, np.array([[1, 2], [0, 2], [1, 0], [0, 1]])).common == (marks[0], marks[2])
    assert Prompts(marks, np.array([[2], [1]])).common == (marks[1],)
