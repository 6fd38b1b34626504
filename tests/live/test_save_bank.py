"""What a ranking observed is kept in a bank that grows, and the next ranking takes it."""

from __future__ import annotations

import json

from lm_eval_ccat import ItemBank
from lm_eval_ccat.bank import SuiteBank
from lm_eval_ccat.cli.main import main


def test_a_bank_grows_from_ranking_to_ranking(bench, server, tmp_path, capsys):
    kept = str(tmp_path / "kept.bank.json")
    first = bench.config(server.url, ["m05", "m07"], name="first", bank=None, budget={"items": 60})
    main(["rank", str(first), "--save_bank", kept])
    assert (
        "Adaptive selection starts at 8 models and 3 answers per item (now 2"
        in capsys.readouterr().err
    )
    bank = ItemBank.load(kept)
    assert bank.method == "sample" and bank.models == ("m05", "m07")
    result = json.loads((tmp_path / "first.run" / "result.json").read_text())
    for one in bank.observations:
        asked = result["models"][one.model]["items"]
        assert sorted(bank.doc_ids[i] for i in one.items) == sorted(asked)
        draws = dict(map(tuple, result["models"][one.model]["draws"]))
        assert one.chosen == "drawn" and one.probabilities is not None
        assert one.probabilities.tolist() == [draws[bank.doc_ids[i]] for i in one.items]
    second = bench.config(server.url, ["m01", "m07"], name="second", bank="kept.bank.json",
                          save_bank=kept, budget={"items": 30})  # fmt: skip
    assert main(["rank", str(second)]) in (0, 3)
    grown = ItemBank.load(kept)
    assert grown.models == ("m05", "m07", "m01")
    before = {o.model: set(o.items.tolist()) for o in bank.observations}
    after = {o.model: set(o.items.tolist()) for o in grown.observations}
    assert after["m05"] == before["m05"] and after["m07"] >= before["m07"]
    # A run goes on with what it began with, though the file has grown since.
    assert main(["rank", str(second), "--resume"]) in (0, 3)


def test_a_folder_with_other_files_takes_the_bank_of_a_first_run(bench, server, tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "notes.json").write_text("{}")
    config = bench.config(server.url, ["m05", "m07"], bank=None, max_items=10)
    main(["rank", str(config), "--save_bank", str(tmp_path / "kept")])
    assert [bank.metric for _, _, bank in SuiteBank.load(tmp_path / "kept").banks()] == ["share"]


def test_a_file_of_another_benchmark_is_refused_before_anything_is_asked(
    bench, server, tmp_path, ccat
):
    ItemBank.blank(range(7), metric="share", task="loopback_task").save(tmp_path / "other.json")
    config = bench.config(server.url, ["m05", "m07"], bank=None)
    err = ccat("rank", config, "--save_bank", tmp_path / "other.json", code=2).err
    assert "holds no bank of share on the items of this run" in err
    assert not server.asked


def test_strata_are_a_field_of_the_documents(bench, server, tmp_path, ccat):
    data = tmp_path / "tasks" / "docs.jsonl"
    fields = [json.loads(line)["numbers"] for line in data.read_text().splitlines()]
    config = bench.config(server.url, ["m05", "m07"], bank=None, strata="numbers", name="grouped",
                          budget={"items": 30})  # fmt: skip
    ccat("rank", config, code=(0, 3))
    header = json.loads((tmp_path / "grouped.run" / "journal.jsonl").open().readline())
    assert header["ranker"]["options"]["strata"] == fields
    ccat("rank", tmp_path / "grouped.run", code=(0, 3))
