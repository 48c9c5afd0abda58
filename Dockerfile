# One image for every process; docker-compose.yml selects the process. The image contains no database server and no SSH
# client: dbops implements both protocols, and backups stream from host to host.
FROM python:3.11-slim-bookworm AS build

# The driver of MariaDB is compiled. Compiler and headers stay in this stage.
RUN apt-get update \
    && apt-get install -y --no-install-recommends gcc libc6-dev libmariadb-dev pkg-config \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /build
COPY requirements.txt requirements-postgresql.txt requirements-mariadb.txt requirements-traces.txt constraints.txt ./
RUN python -m venv /opt/dbops \
    && /opt/dbops/bin/pip install --no-cache-dir --no-compile -r requirements-postgresql.txt -r requirements-mariadb.txt -r requirements-traces.txt


FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends libmariadb3 redis-server \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 dbops \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/dbops --shell /usr/sbin/nologin --no-log-init dbops \
    # No VOLUME: each container would get a nameless one, writable and never removed, for every folder it does not mount.
    # Group root: platforms such as OpenShift run images as any user id in that group, which has no other member.
    && install -d -o dbops -g root -m 0770 /var/lib/dbops /var/lib/dbops-redis /var/lib/dbops-queue

WORKDIR /srv/dbops
COPY --from=build /opt/dbops /opt/dbops
COPY LICENSE manage.py ./
COPY script/run script/health script/
COPY static static
COPY templates templates
COPY locale locale
COPY dbops dbops

ENV DBOPS_STATE_DIR=/var/lib/dbops \
    DBOPS_REDIS_DIR=/var/lib/dbops-redis \
    PATH=/opt/dbops/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

# A number: Kubernetes cannot see that a name is not root's.
USER 10001
EXPOSE 8000
# Of the web process. docker-compose.yml has those of the others.
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=6 CMD ["script/health"]
CMD ["script/run", "web"]
