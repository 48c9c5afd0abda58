# One image for every process; docker-compose.yml selects the process. The image contains no database server and no SSH
# client: dbops implements both protocols, and backups stream from host to host.
FROM python:3.11-slim-bookworm

RUN apt-get update \
    && apt-get install -y --no-install-recommends redis-server \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --uid 10001 --home-dir /var/lib/dbops --shell /usr/sbin/nologin dbops \
    # Group root: platforms such as OpenShift run images as any user id in that group, which has no other member.
    && install -d -o dbops -g root -m 0770 /var/lib/dbops /var/lib/dbops-redis /var/lib/dbops-queue

WORKDIR /srv/dbops
COPY requirements.txt constraints.txt ./
RUN pip install --no-cache-dir --no-compile -r requirements.txt

COPY LICENSE manage.py ./
COPY script/run script/run
COPY static static
COPY templates templates
COPY dbops dbops

ENV DBOPS_STATE_DIR=/var/lib/dbops \
    DBOPS_REDIS_DIR=/var/lib/dbops-redis \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

USER dbops
VOLUME ["/var/lib/dbops", "/var/lib/dbops-redis", "/var/lib/dbops-queue"]
EXPOSE 8000
CMD ["script/run", "web"]
