#!/bin/sh
# The paper's experiments on published scores, and the page docs/evidence/experiments.md made from them.
# Usage: sh benchmarks/paper/published.sh DATA [OUT], where DATA holds scores/.
# It takes about half an hour of processor time for `paper`, and several times that for `default`,
# which is therefore run with fewer seeds: SEEDS, BESIDE_SEEDS and ONLY run a part of it.
set -e
here=$(dirname "$0")
data=${1:?directory with scores/}
out=${2:-experiments-of-the-paper}
only=${ONLY:-wmt24_en-de,wmt24_en-es,wmt23_de-en,alpaca_eval2_weighted,wildbench_v20522_gpt4turbo,zeroeval_gsm,mqm_newstest2021_ende,realsumm_abs:rouge_1_f_score,realsumm_abs:rouge_l_f_score,realsumm_abs:bert_f_score,realsumm_abs:litepyramid_recall,metabench_gsm8k_v1}
measure() {
    python "$here/run" --scores "$data/scores" --only "$only" \
        --scales "$here/scales.json" --exclude "$here/exclude.json" \
        --families "$here/families.json" --drop_duplicates --max_models 100 "$@"
}
measure --out "$out" --methods paper --seeds "${SEEDS:-20}"
python "$here/run" --docs "$out"
measure --out "$out-default" --methods paper,default --studies replay,families,conformance --seeds "${BESIDE_SEEDS:-2}"
python "$here/run" --beside "$out-default" default
