"""The demo: real documents, systems that differ, and an order that full evaluation confirms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_eval_ccat.cli.main import main
from lm_eval_ccat.demo.corpus import Document, collect, write_task
from lm_eval_ccat.demo.scoring import process_results
from lm_eval_ccat.demo.summarisers import CALIBRATING, RANKED, SUMMARISERS


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return collect()


def test_every_python_has_enough_documents(documents: list[Document]) -> None:
    assert len(documents) >= 500
    assert len({d.body for d in documents}) == len(documents)
    assert all(4 <= len(d.summary.split()) <= 20 for d in documents)


def test_systems_really_differ(documents: list[Document]) -> None:
    assert len(SUMMARISERS) >= 12 and len(CALIBRATING) >= 8 and len(RANKED) >= 4
    assert not set(CALIBRATING) & set(RANKED)
    documents = documents[::5]
    answers = {
        name: tuple(summarise(d.name, d.body) for d in documents)
        for name, summarise in SUMMARISERS.items()
    }
    assert len(set(answers.values())) == len(SUMMARISERS)
    means = sorted(
        sum(
            process_results({"summary": d.summary}, [a])["rougeL"] for d, a in zip(documents, given)
        )
        / len(documents)
        for given in answers.values()
    )
    assert means[-1] > 2.5 * means[0]


def test_the_demo_is_right_where_it_is_sure(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "demo"
    code = main(["demo", "--dir", str(folder), "--documents", "500", "--quiet"])
    out = capsys.readouterr().out
    # The command itself ends with 1 if full evaluation contradicts a confident pair.
    assert code == 0, out
    content = json.loads((folder / "rank.run" / "result.json").read_text())
    assert set(content["order"]) == set(RANKED)
    assert content["items_administered"] < 0.6 * 500 * len(RANKED)
    assert content["headline"] in out
    for text in ("pairs were decided", "lm-eval-ccat calibrate logs", "full run"):
        assert text in out
    assert main(["demo", "--dir", str(folder)]) == 1
    assert "already holds a demo" in capsys.readouterr().err


def test_systems_are_found_by_the_harness_s_own_command(
    documents: list[Document], tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    write_task(tmp_path / "tasks", documents[:30])
    arguments = ["--model", "ccat-demo", "--model_args", "system=lead-11", "--tasks", "ccat_demo"]
    assert main(["run", *arguments, "--include_path", str(tmp_path / "tasks")]) == 0
    assert "rougeL" in capsys.readouterr().out


def test_an_unknown_system_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from lm_eval_ccat.demo.systems import DemoSystem
    from lm_eval_ccat.errors import HarnessError

    with pytest.raises(HarnessError, match="no system 'lead-12'; it has: titled"):
        DemoSystem(system="lead-12")
