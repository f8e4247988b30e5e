# The image of a Ropewalk server or worker. docs/deployment.md shows its use; compose.yaml starts a server, workers and Postgres.
FROM python:3.12-slim AS build
WORKDIR /src
# The optional parts. `docker build --build-arg EXTRAS=serve,claude .` chooses others.
ARG EXTRAS=serve,distributed,mcp,http,otel,models,claude
COPY pyproject.toml constraints.txt README.md LICENSE LICENSE-APACHE-2.0 NOTICE ./
COPY scripts/package_readme.py scripts/
COPY tests/conformance tests/conformance
COPY src src
RUN python -m venv /opt/ropewalk && \
    /opt/ropewalk/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]"

FROM python:3.12-slim
COPY --from=build /opt/ropewalk /opt/ropewalk
# /project has the ropewalk.toml, the definitions and the tools. /data is for a store in SQLite.
RUN useradd --create-home --uid 10001 ropewalk && \
    install --directory --owner ropewalk /project /data
ENV PATH=/opt/ropewalk/bin:$PATH \
    ROPEWALK_STORE=sqlite:////data/ropewalk.db
USER 10001
WORKDIR /project
VOLUME /data
EXPOSE 8321
# The process answers. Whether it is ready for requests is a question for /readyz.
HEALTHCHECK --interval=30s --timeout=10s --start-period=20s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8321/healthz', timeout=8)"]
ENTRYPOINT ["ropewalk"]
CMD ["serve", "--host", "0.0.0.0", "--log", "json"]
