# mcf in the locked environment, with everything that `make reproduce-all` needs.
#   docker build -t mcf .
#   docker run --rm -v "$PWD/out:/mcf/results/scratch" mcf sweep-q
FROM python:3.11-slim

# Debian removes old versions, so a pinned one would not install for long; neither tool touches a number.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /mcf

# The environment first: it is built again only when a lock file changes.
COPY Makefile pyproject.toml README.md LICENSE requirements.lock requirements-dev.lock ./
COPY configs configs
COPY mcf_cli mcf_cli
RUN make install

COPY . .
ENV MCF_DATA_HOME=/data
VOLUME /data
ENTRYPOINT ["/mcf/.venv/bin/mcf"]
CMD ["--help"]
