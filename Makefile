# Every target works from a fresh clone with Go and make alone; where a tool is missing it says so.
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 10s
CYCLES   ?= 25
RUNS     ?= 3
# A C compiler is what the race detector needs. CI must have one.
RACE     ?= $(if $(shell command -v $$(go env CC)),-race,$(if $(CI),$(error no C compiler for the race detector)))

# Two packages at a time: most of them wait for servers, and each server wants memory. Results are never cached, since
# they depend on servers.
GOTEST := go test -count=1 -p 2 -timeout 20m
# Run only with the race detector.
RACED  := ./relay/... ./kafka/... ./checkpoint/... ./replication/...
# The rest; e2e and the house rules are stages of their own.
UNIT   := go list ./... | grep -vE '/(relay|kafka|checkpoint|replication|e2e|internal/house)(/|$$)'

.PHONY: help build test test-unit test-race lint fuzz e2e incidents takeover long chaos house bench-quick examples bench bench-go demo completions notices sbom vulnerabilities reproducible platforms chart clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/walrelay, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/walrelay ./cmd/walrelay

test: ## everything: lint, tests on real servers, short fuzz, race detector, kill loop, house rules
	@export MAKE='$(MAKE)'; result=0; tools/stages lint house test-unit fuzz test-race e2e || result=1; \
	command -v java >/dev/null && command -v mvn >/dev/null || echo \
	'NOTE: java or mvn was not found, so tests on real Apache Kafka may have been SKIPPED. Install Java 17 and Maven.'; \
	command -v chromium >/dev/null || echo 'NOTE: chromium was not found, so the test of the status page was SKIPPED.'; \
	exit $$result

test-unit: ## unit and property tests, and those packages' tests on real servers
	$(GOTEST) $$($(UNIT))

test-race: ## relay, kafka, checkpoint and replication under the race detector, on real servers
	@[ -n '$(RACE)' ] || echo 'NOTE: no C compiler, so these tests run WITHOUT the race detector.'
	$(GOTEST) $(RACE) $(RACED)
	$(GOTEST) -run Alloc $(RACED)

lint: ## gofmt, go mod tidy, go vet and staticcheck, changing nothing
	@unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; }
	go mod tidy -diff
	go vet ./...
	go -C deploy/composeconfig vet ./...
	go -C deploy/rulecheck vet ./...
	go -C tools build -o ../bin/ honnef.co/go/tools/cmd/staticcheck
	bin/staticcheck ./...

fuzz: ## each fuzz target for FUZZTIME (10s)
	@tools/fuzz $(FUZZTIME)

e2e: ## the real binary on real servers, killed in a loop
	$(GOTEST) -v -run . ./e2e/...

examples: ## the example applications in Go, Python, Node and Java, each under kills of service, relay and consumer
	go run ./examples

incidents: ## ten incidents caused for real: what every side says of each, and the printed remedy typed; needs Chromium
	@WALRELAY_INCIDENTS=1 WALRELAY_REQUIRE_BROWSER=1 $(GOTEST) -v -run '^TestIncidents$$' ./e2e | awk \
	'/^incidents: / { result = $$0; next } /--- (PASS|FAIL)|_test.go:/ { print } END { print result }'

takeover: ## a real Debezium under load, killed and taken over: minutes; needs Java and Maven
	WALRELAY_TAKEOVER=1 $(GOTEST) -v -run '^TestTakeOver$$' ./e2e

long: ## the figures of docs/guarantees.md, and tests that take minutes; needs Java and Maven
	WALRELAY_LONG=1 $(GOTEST) -v -timeout 40m -run '^(TestFigure.*|TestHotStandby|TestSlowFollower)$$' ./e2e

chaos: ## kill, cut, freeze and restart everything for CYCLES cycles, then audit; goes on in e2e/chaos/result.json; SEED repeats a round
	go run ./e2e/chaos -cycles $(CYCLES) $(if $(POSTGRES),-postgres $(POSTGRES)) $(if $(BROKERS),-brokers $(BROKERS)) \
		$(if $(SEED),-seed $(SEED) -round $(CYCLES),-result e2e/chaos/result.json) $(if $(COMMIT),-commit $(COMMIT))

house: ## imports, budgets, names and what else this code base promises
	go test -count=1 ./internal/house

bench-quick: ## walrelay beside pg_recvlogical on the same WAL, under 10 minutes; the last line is JSON
	go run ./bench/cmd/quick

bench: ## parts of the benchmark (PARTS=a,b; all take hours), beside other relays; figures go to bench/result.json
	go run ./bench/cmd/full -runs $(RUNS) $(if $(PARTS),-parts $(PARTS))

bench-go: ## Go benchmarks of the packages
	go test -run '^$$' -bench . -benchmem ./...

demo: ## orders through a real Postgres and an in-process Kafka, until Ctrl-C
	go run ./demo

completions: build ## bin/completions, for bash, zsh and fish
	@mkdir -p bin/completions
	@for shell in bash zsh fish; do bin/walrelay completion $$shell >bin/completions/walrelay.$$shell; done

notices: ## bin/NOTICES, the licences of what is linked into the binary
	@mkdir -p bin
	@tools/notices >bin/NOTICES

sbom: build ## bin/walrelay.cdx.json, what the binary is made of
	go -C tools build -o ../bin/ github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod
	bin/cyclonedx-gomod bin -json -output bin/walrelay.cdx.json bin/walrelay

vulnerabilities: ## known ones in what the binary calls; needs the network
	go -C tools build -o ../bin/ golang.org/x/vuln/cmd/govulncheck
	bin/govulncheck ./...

reproducible: ## the last commit built twice, from two folders, gives the same binary
	@tools/reproducible

platforms: ## compiles for every system that is released
	@for os in linux darwin; do for arch in amd64 arm64; do \
		echo $$os/$$arch; GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 go build ./...; done; done

chart: ## renders the Helm chart with Helm's engine, checks it, and writes deploy/helm/testdata anew
	@for values in deploy/helm/testdata/*.values.yaml; do \
		go -C deploy/chartcheck run . ../helm/walrelay ../../$$values >$${values%.values.yaml}.rendered.yaml; done

clean: ## what the targets above built
	rm -rf bin
