# One static binary in an empty image, run without privileges. Build with the version to show:
#   docker build --build-arg VERSION=v0.1.0 -t walrelay .
FROM --platform=$BUILDPLATFORM golang:1.26.8-alpine AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /walrelay ./cmd/walrelay
RUN tools/notices >/NOTICES

FROM scratch
# For TLS to servers whose certificates a public authority signed.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /walrelay /NOTICES /
USER 65532:65532
# Health, metrics and status; on loopback only, unless WALRELAY_HTTP_LISTEN says otherwise.
EXPOSE 9187
ENTRYPOINT ["/walrelay"]
CMD ["run"]
