# The image holds the program, the certificates it needs to talk to Amazon, an empty /tmp, and nothing else: no
# shell, no package manager, no user but a nameless one.
#
# make release builds an image with the same content for two processors, without Docker: see docs/install.md.
#
# Queues are reached from outside the container, so the server listens on all of its addresses. Without
# credentials it refuses to do that, and the container stops with a sentence that says so. Either give it a
# key, or say that everybody who reaches the port may use the queues:
#
#   docker build -t tenaq .
#   docker run -p 9324:9324 -v tenaq:/var/lib/tenaq -e TENAQ_ACCESS_KEY_ID -e TENAQ_SECRET_ACCESS_KEY tenaq
#   docker run -p 127.0.0.1:9324:9324 -v tenaq:/var/lib/tenaq tenaq serve --allow-unauthenticated
#
# The image does not say it for you. Publishing the port on 127.0.0.1, as above, keeps the queues on
# your machine. Other containers reach them under a name that --allowed-hosts must list.
# Port 9325 has /livez and /readyz. The health check asks /readyz where TENAQ_ADMIN_LISTEN says; it does not see
# the flags of the container's command.

FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/tenaq ./cmd/tenaq \
 && mkdir -p /out/data /out/root/tmp && chmod 1777 /out/root/tmp

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tenaq /tenaq
# "tenaq pipe" keeps the files of its tasks there. The directory is copied as part of its parent, which keeps its mode.
COPY --from=build /out/root/ /
# A new volume takes over the owner of the directory that it covers.
COPY --from=build --chown=65532:65532 /out/data /var/lib/tenaq
USER 65532:65532

# As variables, so that they still hold when the command of the container is replaced.
ENV TENAQ_DATA_DIR=/var/lib/tenaq \
    TENAQ_LISTEN=0.0.0.0:9324 \
    TENAQ_ADMIN_LISTEN=0.0.0.0:9325

VOLUME /var/lib/tenaq
EXPOSE 9324 9325
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/tenaq", "health"]
ENTRYPOINT ["/tenaq"]
CMD ["serve"]
