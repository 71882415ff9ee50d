# A node of minikafka; docs/docker.md explains how it is used.
#
#   BASE_IMAGE  Debian with Python 3.11 or newer and its venv module; docker/base_image.py makes one without a registry.
#   WHEELS      A folder of the build context with wheels of all dependencies; without it they are from the package index.
#   EXTRAS      `[fast]` adds numpy, with which large batches are checked faster; it adds 60 MB.
ARG BASE_IMAGE=python:3.13-slim-bookworm

FROM ${BASE_IMAGE} AS build
ARG WHEELS=
ARG EXTRAS=
COPY . /source
RUN python3 -m venv /pip \
 && python3 -m venv --without-pip /opt/minikafka \
 && /pip/bin/pip --python /opt/minikafka/bin/python install --no-cache-dir --disable-pip-version-check \
      ${WHEELS:+--no-index --find-links "/source/${WHEELS}"} "/source${EXTRAS}" \
 && cp /source/docker/health.py /source/docker/secure.py /opt/minikafka/

FROM ${BASE_IMAGE}
LABEL org.opencontainers.image.title="minikafka" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/minikafka /opt/minikafka
# The group 0 may write, so that the image runs under any user of it, as orchestrators choose them.
RUN useradd --uid 1000 --gid 0 --no-create-home --home-dir /var/lib/kafka --shell /usr/sbin/nologin minikafka \
 && install -d -o minikafka -g root -m 0775 /var/lib/kafka /var/lib/kafka/data
ENV PATH=/opt/minikafka/bin:$PATH PYTHONDONTWRITEBYTECODE=1
USER 1000:0
WORKDIR /var/lib/kafka
VOLUME /var/lib/kafka/data
EXPOSE 9092
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python3", "-I", "-S", "/opt/minikafka/health.py"]
ENTRYPOINT ["minikafka"]
CMD ["server", "--container"]
