# Rank models behind an API, or replay logs, without installing anything but Docker:
#
#   docker build -t lm-eval-ccat .
#   docker run --rm lm-eval-ccat demo
#   docker run --rm -v "$PWD":/work -e OPENAI_API_KEY lm-eval-ccat rank models.yaml
#   docker run --rm -v "$PWD":/work --user "$(id -u):$(id -g)" lm-eval-ccat simulate --scores t.parquet
#
# For local weights build with `--build-arg EXTRAS=hf` and run with `--gpus all`; mount a cache
# of weights with `-v ~/.cache/huggingface:/cache/huggingface`.
FROM python:3.12-slim

ARG EXTRAS=api,readability,plot
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 \
    HF_HOME=/cache/huggingface HOME=/cache OMP_NUM_THREADS=1

COPY . /src
RUN pip install -c /src/constraints.txt "/src[$EXTRAS]" && rm -rf /src \
    && mkdir -p /cache /work && chmod 777 /cache /work

WORKDIR /work
ENTRYPOINT ["lm-eval-ccat"]
CMD ["--help"]
