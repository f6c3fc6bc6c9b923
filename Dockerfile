# Holdfast in a container: `docker build -t holdfast .`, then `docker run -p 8420:8420 -v holdfast:/data holdfast`.
# The command line is the entry point: `docker run holdfast app list`, `docker run holdfast serve --help`.
FROM node:24.18.0-bookworm-slim@sha256:6f7b03f7c2c8e2e784dcf9295400527b9b1270fd37b7e9a7285cf83b6951452d AS install
WORKDIR /app
COPY . .
# The second puts the binary of bun in place where npm is told to run no install scripts.
RUN npm ci --omit=dev && (node_modules/.bin/bun --version || node node_modules/bun/install.js)

# Node is needed to install, not to run.
FROM debian:bookworm-slim@sha256:96e378d7e6531ac9a15ad505478fcc2e69f371b10f5cdf87857c4b8188404716
COPY --from=install /app /app
RUN ln -s /app/bin/holdfast /usr/local/bin/holdfast && install -d -o 10001 -g 10001 -m 0700 /data
USER 10001:10001
WORKDIR /data
ENV HOLDFAST_LISTEN=0.0.0.0:8420 HOLDFAST_DATA=/data
VOLUME /data
EXPOSE 8420
# SIGTERM drains: requests in flight get at least 10 s.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=40s \
  CMD ["/app/node_modules/.bin/bun", "-e", "process.exit((await fetch('http://127.0.0.1:8420/health')).ok ? 0 : 1)"]
ENTRYPOINT ["holdfast"]
CMD ["serve"]
