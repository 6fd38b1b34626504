"""Another prompt than the bank's is refused by name, or accepted, and every surface says so."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from worlds.bench import PROMPT, TASK

from lm_eval_ccat import ItemBank, ScoreTable, adaptive_evaluate, rank
from lm_eval_ccat.cli.main import main
from lm_eval_ccat.errors import BankMismatchError, CcatError
from lm_eval_ccat.harness import open_session
from lm_eval_ccat.harness.internals import PlaceholderLM
from lm_eval_ccat.journal import read_journal
from lm_eval_ccat.methods.default.fit import model_of
from lm_eval_ccat.records import Accept
from lm_eval_ccat.scores.prompts import Prompts, mark_of

TWO = ["m01", "m11"]


@pytest.fixture
def bank(bench):
    """The bank of method `default`, whose models were asked as the task asks, or otherwise."""

    def write(prompt=PROMPT):
        bank = ItemBank.load(bench.folder / "default.bank.json")
        marks = tuple(mark_of(prompt.format(id=doc_id)) for doc_id in bank.doc_ids)
        replace(bank, prompts=marks).save(bench.folder / "prompted.bank.json")
        return "prompted.bank.json"

    return write


@pytest.mark.long
def test_the_bank_s_own_prompts_pass_in_silence_and_a_run_keeps_theirs(bench, server, bank, capsys):
    config = bench.config(server.url, TWO, bank=bank(), max_items=12)
    rank(config, run_dir=bench.run())
    assert "rompts" not in capsys.readouterr().err
    header = read_journal(bench.run() / "journal.jsonl")[0].header
    marks = ItemBank.load(bench.folder / "prompted.bank.json").prompts
    assert tuple(header.task["prompts"][TASK]) == marks
    assert len(json.dumps(header.task["prompts"][TASK])) <= 15 * len(marks)


@pytest.mark.long
def test_another_prompt_is_refused_naming_one_document_and_both_hashes(bench, server, bank):
    settings = {"bank": bank("Say {id}."), "max_items": 12}
    with pytest.raises(BankMismatchError) as refused:
        rank(bench.config(server.url, TWO, **settings))
    for words in (
        f"the prompt of document 0 is {mark_of('Say 0.')} in the bank",
        f"and {mark_of(PROMPT.format(id=0))} in the run",
        "120 of 120 prompts differ, as with a chat template, a system prompt or other examples",
        "--accept_change prompts",
    ):
        assert words in str(refused.value)
    for kind in ("scoring", "server", "cut"):
        with pytest.raises(BankMismatchError):
            rank(bench.config(server.url, TWO, **settings), accept_change=kind)
    with pytest.raises(CcatError, match="the prompt of document 0"):
        arguments = {"model": "m11", "base_url": server.url, "tokenizer_backend": "none"}
        adaptive_evaluate(
            "local-completions", arguments, [TASK], bank=str(bench.folder / settings["bank"]),
            max_items=12, include_path=str(bench.folder / "tasks"),
        )  # fmt: skip


@pytest.mark.long
def test_it_is_accepted_with_a_wide_prior_and_every_surface_says_so(bench, server, bank, capsys):
    config = bench.config(server.url, TWO, bank=bank("Say {id}."), max_items=12)
    assert main(["rank", str(config), "--accept_change", "prompts"]) in (0, 3)
    said = "accepted: the prompt of document 0 is"
    shown = capsys.readouterr()
    assert said in shown.err and said in " ".join(shown.out.split())
    run, page = bench.run(), bench.folder / "page.html"
    assert any(said in text for text in json.loads((run / "result.json").read_text())["warnings"])
    assert main(["report", str(run), "-o", str(page)]) == 0
    assert said in page.read_text()
    assert main(["compare", str(run), "--models", ",".join(TWO)]) in (0, 3, 5)
    assert said in capsys.readouterr().err
    _, records = read_journal(run / "journal.jsonl")
    [accepted] = [record for record in records if isinstance(record, Accept)]
    assert accepted.change == "prompts" and said in accepted.what[0]
    own = model_of(ItemBank.load(bench.folder / "prompted.bank.json")).departures
    used = model_of(ItemBank.load(run / "bank.json")).departures
    assert (used.single >= own.single).all() and used.single.sum() > own.single.sum()


@pytest.mark.long
def test_every_remedy_works_as_it_is_typed(few_plays, bench, server, bank, ccat):
    """Who has no --accept_change says what else there is."""
    config = bench.config(server.url, TWO, bank=bank("Say {id}."), max_items=12)
    flag, said = "--accept_change prompts", "the prompt of document 0 is"
    assert flag in ccat("rank", config, code=2).err
    command = bench.adaptive(server, "m11", "--bank", bench.folder / "prompted.bank.json")
    assert flag in ccat(*command, code=2).err
    ccat(*command, *flag.split())
    # A plan asks nothing, so it goes on, and says what `rank` will.
    task = bench.folder / "tasks" / f"{TASK}.yaml"
    for source in ((config,), ("--task", task, "--bank", bench.folder / "prompted.bank.json")):
        planned = ccat("plan", *source)
        assert f"accepted: {said}" in planned.err
        assert planned.err.count(f"`rank` refuses this run without {flag} (`accept_change:") == 1
        assert "the bank" in planned.out
    ccat("rank", config, *flag.split(), code=(0, 3))
    assert flag in ccat("rank", config, "--resume", "--max_items", "13", code=2).err
    ccat("rank", config, "--resume", "--max_items", "13", *flag.split(), code=(0, 3))
    ccat("complete", bench.run())


@pytest.mark.long
def test_a_run_is_neither_resumed_nor_completed_with_other_prompts_than_it_began_with(
    bench, server, bank, ccat
):
    config = bench.config(server.url, TWO, bank=bank(), max_items=12)
    ccat("rank", config, code=(0, 3))
    bench.rewrite(lambda name, text: text.replace("Repeat the numbers", "Copy the numbers"))
    for command in (
        ("rank", config, "--resume"), ("complete", bench.run()),
        ("rank", config, "--resume", "--accept_change", "prompts"),
    ):  # fmt: skip
        err = ccat(*command, code=1).err
        assert "cannot resume" in err and "the prompt of document 0 is" in err
        assert "--accept_change" not in err
    new = ("rank", config, "--run_dir", bench.folder / "new")
    assert "--accept_change prompts" in ccat(*new, code=2).err
    ccat(*new, "--accept_change", "prompts", code=(0, 3))


@pytest.mark.long
def test_a_bank_without_prompts_is_said_to_have_none(bench, server, capsys):
    rank(bench.config(server.url, TWO, max_items=12))
    assert "prompts unknown: the bank does not state them" in capsys.readouterr().err
    rank(bench.config(server.url, TWO, bank="", max_items=12))
    assert "prompts unknown" not in capsys.readouterr().err


@pytest.mark.long
def test_a_growing_bank_keeps_the_prompts_and_takes_no_answers_to_others(bench, server):
    grown = bench.folder / "grown.bank.json"
    settings = {"bank": "", "max_items": 12, "save_bank": str(grown)}
    rank(bench.config(server.url, TWO, **settings))
    marks = ItemBank.load(grown).marks
    assert marks[3] == mark_of(PROMPT.format(id=3)) and None not in marks.values()
    bench.rewrite(lambda name, text: text.replace("Repeat the numbers", "Copy the numbers"))
    with pytest.raises(CcatError, match=r"the prompt of document 0 is .* name another file"):
        rank(bench.config(server.url, TWO, **settings))


@pytest.mark.long
def test_runs_of_other_prompts_are_not_compared_by_their_estimates(bench, server, ccat):
    """Run directories, results of `run --adaptive`, and one of each."""
    sides = {}
    for name in ("old", "new"):
        bench.ranked(server, TWO, name=name, bank="", max_items=40, stop="limits")
        out = bench.folder / f"{name}-adaptive"
        ccat(
            *bench.adaptive(server, "m11", "--max_items", 40, "--log_samples", "--output_path", out)
        )
        sides[name] = bench.run(name), out
        bench.rewrite(lambda name, text: text.replace("Repeat the numbers", "Copy the numbers"))
    before, now = PROMPT.format(id=7), PROMPT.format(id=7).replace("Repeat", "Copy")
    for first in sides["old"]:
        for second in sides["new"]:
            command = ["compare", first, second, "--models", "m11,m11"]
            said = ccat(*command, "--accept_change", "server", code=2).err
            doc_id = int(re.search(r"prompt of document (\d+) is", said)[1])
            marks = [
                mark_of(text.replace("document 7", f"document {doc_id}")) for text in (before, now)
            ]
            assert f"is {marks[0]} in the baseline and {marks[1]} in the candidate" in said
            assert "from character 1 on 'Repeat" in said and "--accept_change prompts" in said
            shown = ccat(*command, "--accept_change", "prompts", "--json", code=(0, 3, 5))
            [told] = [w for w in json.loads(shown.out)["warnings"] if w.startswith("accepted: ")]
            assert told in shown.err
    for name in sides:  # the same prompts pass in silence
        shown = ccat("compare", *sides[name], "--models", "m11,m11", code=(0, 3, 5))
        assert not re.search("prompt of|prompts (differ|unknown|are)", shown.err)


@pytest.fixture
def known(bench):
    """Full results of known models, which state their documents and how they were asked."""
    session = open_session(TASK, PlaceholderLM(), include_path=str(bench.folder / "tasks"))

    def write(prompt=PROMPT, documents=session.doc_hashes):
        table = ScoreTable.read(bench.folder / "known.parquet")
        marks = [mark_of((prompt or "").format(id=doc_id)) for doc_id in table.doc_ids]
        prompts = prompt and Prompts.of_rows([marks] * len(table.row_model))
        asked = replace(table, prompts=prompts, doc_hashes=documents)
        asked.write(bench.folder / "asked.parquet")
        return {"known": "asked.parquet", "bank": "", "max_items": 12}

    write.documents = session.doc_hashes
    return write


@pytest.mark.long
def test_known_results_of_other_prompts_are_refused_or_accepted_and_said(
    bench, server, known, ccat
):
    config = bench.config(server.url, ["m03", "m09"], **known())
    assert not re.search("prompt|hashes", ccat("rank", config, code=(0, 3)).err)
    config = bench.config(server.url, ["m03", "m09"], name="other", **known("Say {id}."))
    before = sum(server.asked.values())
    assert (
        f"known model m00: the prompt of document 0 is {mark_of('Say 0.')} in the source "
        f"and {mark_of(PROMPT.format(id=0))} in the run; 120 of 120 prompts differ"
    ) in (err := ccat("rank", config, code=2).err)
    assert "--accept_change prompts" in err and sum(server.asked.values()) == before
    ccat("rank", config, "--accept_change", "scoring", code=2)
    planned = ccat("plan", config).err
    assert "accepted: known models m00, m02, m04, m06 and 2 more: the" in planned
    assert "`rank` refuses this run without --accept_change prompts" in planned
    shown = ccat("rank", config, "--accept_change", "prompts", code=(0, 3))
    said = "accepted: known models m00, m02, m04, m06 and 2 more: the prompt of document 0 is"
    run, page = bench.run("other"), bench.folder / "page.html"
    assert said in shown.err and said in " ".join(shown.out.split())
    assert any(said in text for text in json.loads((run / "result.json").read_text())["warnings"])
    ccat("report", run, "-o", page)
    assert said in page.read_text()
    [accepted] = [r for r in read_journal(run / "journal.jsonl")[1] if isinstance(r, Accept)]
    assert len(accepted.what) == 1 and said in accepted.what[0]
    options = ["--leaderboard", bench.folder / "asked.parquet", "--max_items", 12]
    refused = ccat(*bench.adaptive(server, "m09", *options), code=2).err
    assert "known model m00: the prompt of document 0 is" in refused


@pytest.mark.parametrize("bank", ["", "default.bank.json"])
def test_known_results_of_other_documents_are_refused_whatever_is_accepted(
    bench, server, known, ccat, bank
):
    """Also where the bank does not state its documents."""
    settings = {**known(documents=["0" * 64, *known.documents[1:]]), "bank": bank}
    config = bench.config(server.url, ["m03", "m09"], **settings)
    wanted = f"document 0 is 00000000 in the known results and {known.documents[0][:8]} in the"
    assert wanted in ccat("rank", config, "--accept_change", "prompts", code=2).err
    assert not server.asked


@pytest.mark.long
def test_what_known_results_do_not_state_is_said_once(bench, server, known, ccat):
    config = bench.config(server.url, ["m03", "m09"], **known(prompt=None, documents=None))
    shown = ccat("rank", config, code=(0, 3)).err
    assert shown.count("prompts unknown: the source does not state them") == 1
    assert shown.count("the source states no hashes of documents") == 1
