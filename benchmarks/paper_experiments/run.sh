#!/bin/sh
# The paper's experiments on published scores, and the page docs/experiments.md made from them.
# Usage: benchmarks/paper_experiments/run.sh DATA OUT, where DATA holds scores/.
set -e
here=$(dirname "$0")
data=${1:?directory with scores/}
out=${2:?directory to write}
lm-eval-ccat experiments --scores "$data/scores" --out "$out" \
    --scales "$here/scales.json" --exclude "$here/exclude.json" --families "$here/families.json" \
    --drop_duplicates --max_models 100 --levels "${LEVELS:-5,10,20,40}" \
    --only "${ONLY:-wmt24_en-de,wmt24_en-es,wmt23_de-en,alpaca_eval2_weighted,wildbench_v20522_gpt4turbo,zeroeval_gsm,mqm_newstest2021_ende,realsumm_abs:rouge_1_f_score,realsumm_abs:rouge_l_f_score,realsumm_abs:bert_f_score,realsumm_abs:litepyramid_recall,metabench_gsm8k_v1}" \
    --methods "${METHODS:-paper,default}"
python "$here/page.py" "$out"
