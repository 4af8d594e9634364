# A small image without a shell that runs as nobody. Its root file system may be read-only:
#
#   docker build -t assent .
#   docker run --read-only -v assent:/data -p 127.0.0.1:50051:50051 assent serve --listen 0.0.0.0:50051 --allow-remote
#
# As a sidecar in a pod, loopback is shared and the default listener is enough.

FROM rust:1.95-slim-bookworm AS build
# The C compiler builds the bundled SQLite.
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin assent && mkdir /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/assent /usr/local/bin/assent
COPY --from=build --chown=65532:65532 /data /data
ENV ASSENT_STORE=sqlite:/data/assent.db
VOLUME /data
EXPOSE 50051
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/local/bin/assent", "health"]
ENTRYPOINT ["/usr/local/bin/assent"]
CMD ["serve"]
