# The router and its companions. The container needs the host's network (`--network host`): engines are announced on
# host addresses, and daemons broadcast to the host's networks; a bridge reaches neither.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
# anything: the compiled wheel of docs/install.md
ARG COMPILED=
# hadolint ignore=DL3008
RUN test -z "${COMPILED}" \
 || { apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*; }
WORKDIR /src
COPY . .
# the wheel, as a user installs it, with the versions of dependencies that were tested; no pip in what runs
RUN HATCH_BUILD_HOOK_ENABLE_CUSTOM="${COMPILED:+true}" pip wheel --no-cache-dir --no-deps --wheel-dir /dist . \
 && python -m venv --without-pip /opt/mentatd \
 && pip --python /opt/mentatd/bin/python install --no-cache-dir --constraint requirements.lock /dist/*.whl

FROM python:${PYTHON}-slim
COPY --from=build /opt/mentatd /opt/mentatd
COPY packaging/healthcheck.py /opt/healthcheck.py
ENV PATH=/opt/mentatd/bin:$PATH
# by number, so that a runtime can see that it is not root
USER 6381:6381
EXPOSE 6381/tcp 6382/udp
# ends in order on SIGTERM, within DRAIN_S: give `docker stop` more than that
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=5s CMD ["python", "/opt/healthcheck.py"]
ENTRYPOINT ["mentatd-serve"]
