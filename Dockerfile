# The gateway alone: an image that runs the command mgw as an unprivileged user. It contains no secrets; pass them at start
# (MGW_SECRET_KEY_FILE, PGPASSFILE, and the variables your configuration names, each also as NAME_FILE).

# The base of both stages; any Debian or Python image with Python 3.11 or later, its venv and pip will do. To pin it,
# give a digest: --build-arg BASE=python@sha256:...
ARG BASE=python:3.11.14-slim-bookworm

FROM ${BASE} AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# What the gateway needs at run time, and what builds it, each checked against its lock. Only the first goes into the image.
COPY requirements.lock requirements-image.lock ./
RUN python3 -m venv tools \
 && sed -n '/^setuptools==/,/[^\\]$/p' requirements.lock >tools.lock \
 && tools/bin/pip install --quiet --require-hashes --requirement tools.lock \
 && python3 -m venv --without-pip /opt/mgw \
 && tools/bin/pip --python /opt/mgw/bin/python install --quiet --only-binary :all: --require-hashes \
    --requirement requirements-image.lock
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY mgw mgw
COPY gateway gateway
COPY links links
COPY transforms transforms
COPY pipelines pipelines
COPY conf conf
RUN tools/bin/pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir dist . \
 && tools/bin/pip --python /opt/mgw/bin/python install --quiet --no-deps --no-index dist/*.whl

FROM ${BASE}
RUN groupadd --gid 10001 mgw \
 && useradd --uid 10001 --gid mgw --home-dir /var/lib/mgw --create-home --shell /usr/sbin/nologin mgw
COPY --from=build /opt/mgw /opt/mgw
ENV PATH=/opt/mgw/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MGW_HUB=sqlite:////var/lib/mgw/hub.db
# By number, so that an orchestrator can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/mgw
VOLUME /var/lib/mgw
STOPSIGNAL SIGTERM
# Asks the agent on its port (MGW_HTTP), at a tenth of the cost of a command that opens the hub.
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=4 CMD ["python", "-m", "mgw.gateway.http.probe"]
ENTRYPOINT ["mgw"]
CMD ["run"]
