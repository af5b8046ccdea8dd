# The gateway alone: an image that runs the command mgw as a user without rights. No secret is in it; give them at start
# (MGW_SECRET_KEY_FILE, PGPASSFILE, and the variables your configuration names, each also as NAME_FILE).

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
# Every wheel is checked against the lock; of them, only those that the gateway needs at run time are installed below.
COPY requirements.lock ./
RUN pip wheel --quiet --no-deps --require-hashes --requirement requirements.lock --wheel-dir wheels
COPY pyproject.toml README.md LICENSE CHANGELOG.md ./
COPY mgw mgw
COPY gateway gateway
COPY links links
COPY transforms transforms
COPY pipelines pipelines
COPY conf conf
RUN pip install --quiet --upgrade --no-index --find-links wheels setuptools \
 && pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir dist . \
 && python -m venv /opt/mgw \
 && /opt/mgw/bin/pip install --quiet --no-index --find-links wheels --find-links dist "messaging-gateway[rabbitmq,kafka,mqtt,postgres]"

FROM python:3.11-slim-bookworm
RUN groupadd --gid 10001 mgw \
 && useradd --uid 10001 --gid mgw --home-dir /var/lib/mgw --create-home --shell /usr/sbin/nologin mgw
COPY --from=build /opt/mgw /opt/mgw
ENV PATH=/opt/mgw/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MGW_HUB=sqlite:////var/lib/mgw/hub.db
USER mgw
WORKDIR /var/lib/mgw
VOLUME /var/lib/mgw
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=4 CMD ["mgw", "status", "--check"]
ENTRYPOINT ["mgw"]
CMD ["run"]
