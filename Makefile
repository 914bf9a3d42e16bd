# Needs Go, make and git. The race detector also needs a C compiler; make test installs one where it may,
# and else says so and goes on without, unless TENAQ_REQUIRE_ALL=1.
#
# Everything but the race detector runs with cgo off, as the program is shipped. For the race detector
# the tag pebblegozstd picks the compression that is used without cgo. The part of SQLite that is translated
# from C is not watched: it is slower by an order of magnitude then, and not ours. More cannot be left
# out: a package that shares generic code with others would leave that unwatched for all. Why test/raced runs
# the tests is said there.

SHELL       := bash
.SHELLFLAGS := -euo pipefail -c

GO          ?= go
PURE_GO     := CGO_ENABLED=0 $(GO)
# Vet has looked at all packages before. Without paths of this folder, what is compiled for the program serves the
# tests too, also in other folders.
TEST        := test -vet=off -trimpath
RACE        := -race -tags pebblegozstd '-gcflags=modernc.org/sqlite/lib=-race=false' -exec '"$(CURDIR)/test/raced"'
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Packages that take longest come first, or the others would wait for them at the end.
LONGEST     := ./cmd/tenaq ./test/interop ./internal/engine ./internal/server ./internal/kv/pebblekv ./test/crash ./test/sdk ./outbox/pgoutbox ./redrive ./internal/cluster/group
VERSION     ?= $(shell git describe --tags --dirty 2>/dev/null)
FUZZTIME    ?= 10s
# Tests wait more than they work: for processes that start, leases that expire, databases. So more packages than
# processors run at once.
ABREAST     := -p $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))

# make test draws its seeds from the sources: what passes once passes again, and each change tries others.
SEED        := $(shell tree=$$(git rev-parse --short=8 'HEAD^{tree}' 2>/dev/null) && printf %d 0x$${tree:0:8})
SHUFFLE     := -shuffle=$(or $(SEED),on)

# Tests that start the program as a process need not build one each.
BUILT       := TENAQ_BINARY='$(CURDIR)/bin/tenaq'

# These read the sources, start no goroutine of ours (the engine), drive programs that are built without the
# race detector or only wire what is watched in its own package (cmd/tenaq), or measure time.
UNRACED     := ./internal/archtest ./internal/console/build ./internal/engine ./cmd/tenaq ./cmd/tenaq/demo/... ./release ./test/cluster ./test/console ./test/crash ./test/demo ./test/deploy ./test/home ./test/interop ./test/mutants ./test/pages
# Nothing that runs in their tests starts a goroutine, as internal/archtest checks.
ALONE       := ./internal/api/framing ./internal/api/sqs/sqswire ./internal/cluster ./internal/console ./internal/door/policy \
	./internal/door/sigv4 ./internal/work/backoff ./internal/work/extension ./internal/work/v1client \
	./internal/engine/enginetest ./internal/engine/kept ./internal/engine/key ./internal/engine/row ./internal/engine/salvage \
	./internal/engine/verify ./internal/invariant ./internal/observe/alarm ./internal/server/backup ./internal/testing/audit \
	./internal/work/clip ./internal/work/fingerprint ./internal/work/queuename ./redrive/breaker
# Some of their tests do less in the short form that the race detector runs. internal/archtest writes the list of those
# tests, and test/longer runs no others. What is in none of these three lists does the same in both forms, and runs
# once, with the race detector.
LONGER      := $(addprefix ./,$(shell cut -d' ' -f1 test/longer.txt | uniq))

.DEFAULT_GOAL := build
.PHONY: build home demo test-short test check fuzz mutants cluster-short cluster bench bench-short bench-worker bench-peers emulators help format vet staticcheck race whole browser demos proofs proofs-long binary release release-check site clean

build: ## build bin/tenaq, one static file (the default)
	@$(PURE_GO) build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/tenaq ./cmd/tenaq

# A module path whose first part has no dot cannot be fetched, only replaced.
home: ## rename the module to MODULE, the address of your copy: make home MODULE=github.com/you/tenaq
	@old=$$($(GO) list -m) new='$(MODULE)'; \
	case "$$new" in *.*/*) ;; *) echo "usage: make home MODULE=github.com/you/tenaq" >&2; exit 2 ;; esac; \
	rooms=$$(git ls-files | sed -n 's|/.*||p' | sort -u | paste -sd'|' -); \
	git ls-files '*.go' '*.md' '*.yml' '*.yaml' Makefile Dockerfile | xargs sed -i -E \
		-e "s#(\"|go doc |^import )$$old/($$rooms)\\b#\1$$new/\2#g"; \
	$(GO) mod edit -module "$$new"; \
	$(GO) list -f '{{.Dir}}' ./... | xargs gofmt -w; \
	echo "the module is $$new now; commit, tag and push it, then: go get $$new"

demo: build ## build, then run the demo
	@bin/tenaq demo

test-short: vet ## what to run before each commit, at most 3 minutes
	$(PURE_GO) $(TEST) -short ./...

# Installing is waiting for the network, most of the time, and checking is work.
test: ## everything, as CI runs it
	@$(MAKE) --no-print-directory -j2 format emulators vet staticcheck
	@$(MAKE) --no-print-directory -j1 race whole bench-short

check: format vet staticcheck ## the same without the race detector and the costly checks
	$(PURE_GO) $(TEST) -shuffle=on $(LONGEST) ./...

fuzz: ## run each fuzz target for FUZZTIME, 10s unless told
	@targets=$$($(PURE_GO) test -list '^Fuzz' ./... | awk '/^Fuzz/ { names = names " " $$1 } /^ok/ { n = split(names, a, " "); for (i = 1; i <= n; i++) print $$2, a[i]; names = "" }'); \
	while read -r package target; do \
		[ -n "$$package" ] || continue; \
		echo "== $$package $$target"; \
		$(PURE_GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package"; \
	done <<< "$$targets"

mutants: ## try every seeded bug of docs/proofs.md; the tests that prove the promises must notice each
	TENAQ_EFFORT=long $(PURE_GO) test ./test/demo -count=1 -v -run '^TestBreaks$$'
	$(PURE_GO) test ./test/mutants -count=1 -v -all -timeout 30m

bench: ## run the Go benchmarks of all packages
	$(PURE_GO) test -run '^$$' -bench . -benchmem -timeout 40m ./...

bench-short: build ## what is promised of performance, in a short form that judges ratios only
	@bin/tenaq bench budget --short

# Without Node it compares the others.
bench-worker: ## compare package worker with other consumers; sqs-consumer among them needs Node 20 with npm
	@TENAQ_REQUIRE_ALL= test/interop/install sqs-consumer
	$(PURE_GO) test ./test/bench -run '^$$' -bench Consumers -benchtime 3x -timeout 30m

# It fetches the peers that Debian does not package. For the others: apt install redis-server rabbitmq-server postgresql
bench-peers: build ## compare tenaq with other queues, as far as they are installed
	@TENAQ_REQUIRE_ALL= test/interop/install elasticmq artemis fauxqs nats
	@bin/tenaq bench peers

emulators: ## install what tests run against or with: moto and other people's clients; needs Python, Node, Java
	@test/interop/install

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The parts of test, each of which runs on its own too.

format:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi

vet:
	$(PURE_GO) vet -trimpath ./...

staticcheck:
	$(PURE_GO) run $(STATICCHECK) ./...

# Every package with the race detector in the short form of its tests: the long form of a random test finds no
# more races, and takes ten times as long. GO must find a C compiler that works, which is more than one that is
# there. Where this may install one, it does. Without one the tests run here too, but for the detector.
race: export TENAQ_SEED ?= $(SEED)
race:
	@cc=$$($(GO) env CC); packages=$$($(GO) list $(LONGEST) ./... | grep -vxFf <($(GO) list $(UNRACED) $(ALONE))); \
	works() { echo 'int main(void) { return 0; }' | $$cc -x c -o /dev/null - 2>/dev/null; }; \
	if ! works && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing a C compiler, which the race detector needs"; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev || true; \
	fi; \
	if works; then \
		set -x; GORACE=atexit_sleep_ms=0 CGO_ENABLED=1 $(GO) $(TEST) $(ABREAST) $(RACE) -short $(SHUFFLE) $$packages; \
	elif [ "$${TENAQ_REQUIRE_ALL:-}" = 1 ]; then \
		echo "no C compiler ($$cc), which the race detector needs: install gcc and libc6-dev" >&2; exit 1; \
	else \
		echo "SKIPPED: no C compiler ($$cc), so no race detector" >&2; \
		$(PURE_GO) $(TEST) $(ABREAST) -short $(SHUFFLE) $$packages; \
	fi

# Without the race detector every test that race does not run, or runs in a shorter form. The browser, the demos on
# emulators and the clusters come last: they keep real time, which other tests would take from them. Demos and clusters
# mostly wait, so they run one after the other beside the browser.
whole: export TENAQ_EFFORT ?= test
whole: export TENAQ_SEED ?= $(SEED)
whole: build
	$(BUILT) $(PURE_GO) $(TEST) $(ABREAST) -exec '"$(CURDIR)/test/longer"' -count=1 $(SHUFFLE) -timeout 20m \
		$$($(GO) list $(LONGEST) $(LONGER) $(UNRACED) $(ALONE) | grep -v -e '/test/console$$' -e '/test/demo$$' -e '/test/cluster$$')
	@$(MAKE) --no-print-directory -j2 browser demos cluster-short

browser:
	$(BUILT) $(PURE_GO) $(TEST) -count=1 -timeout 20m ./test/console

# With TENAQ_BINARY they would play what make demo plays.
demos:
	$(PURE_GO) $(TEST) -count=1 -timeout 20m ./test/demo

# What docs/proofs.md says of each. Random tests print their seeds; what they found once they find again.
PROVE := $(PURE_GO) $(TEST) -count=1 -v

cluster-short: export TENAQ_EFFORT ?= test
cluster-short: export TENAQ_SEED ?= $(SEED)
cluster-short: build ## kill, cut off and replace nodes of clusters under load, with 24 dead leaders, in a minute
	$(BUILT) $(PROVE) ./test/cluster

cluster: export TENAQ_EFFORT = long
cluster: ## the same with 1,000 dead leaders, in half an hour
	$(PROVE) ./test/cluster -timeout 90m

proofs: export TENAQ_EFFORT = hard
proofs: ## try to break the promises, with larger counts than make test, in at most 10 minutes
	$(PROVE) ./internal/engine ./internal/engine/verify -run '^Test(Model|Metamorphic|Cuts|CrashAnywhere|Audit)'
	$(PROVE) ./internal/broker -run '^Test(Crashes|Clock|Paused|Pause|WallClock|Steps|Restart)'
	$(PROVE) ./internal/cluster/group -run '^Test(Faults|Linearizable|LeadersDie|PowerCutsDuringCopy)'
	$(PROVE) ./internal/kv/pebblekv ./internal/server/backup -run '^Test(Faults|Damage|ReaderFindsDamage|Changed|CutOff|EntriesMoved)$$'
	$(PROVE) ./internal/server -run '^Test(Fault|DiskReallyFull|OneSentence)'
	$(PROVE) ./test/crash
	$(PROVE) ./test/cluster
	$(PROVE) ./test/mutants

proofs-long: export TENAQ_EFFORT = long
proofs-long: build ## the longest of them for two or three hours
	$(PROVE) ./internal/engine -run '^Test(Model|Metamorphic|Cuts|CrashAnywhere)$$' -timeout 120m
	$(PROVE) ./internal/broker -run '^TestCrashes' -timeout 120m
	$(PROVE) ./internal/cluster/group -run '^Test(Faults|Linearizable)' -timeout 180m
	$(PROVE) ./internal/kv/pebblekv -run '^Test(Faults|Damage)' -timeout 120m
	$(PROVE) ./internal/server -run '^Test(Fault|ConsoleOfAStalledDisk)' -timeout 120m
	$(PROVE) ./test/crash -timeout 120m
	$(PROVE) ./test/worker -timeout 60m
	$(PROVE) ./test/console -run '^Test(Stop|HeldStream|Restart)'
	$(PROVE) ./test/console -run '^$$' -bench 'Paint|ManyQueues/scroll' -benchtime 50x
	$(PROVE) ./test/demo
	bin/tenaq demo --long
	$(PROVE) ./test/mutants -all -timeout 30m

binary: build
	$(BUILT) $(PURE_GO) $(TEST) -count=1 -run '^TestBinary$$' -v ./internal/archtest

# Results depend on the version of Go, which Go fetches if another is installed.
release release-check: export GOTOOLCHAIN = go1.26.8
release: ## build the archives, packages and images of VERSION into bin/release: make release VERSION=v0.2.0
	@$(GO) run ./release -version '$(VERSION)'

release-check: ## build VERSION twice, in two clones, and compare every byte
	@$(GO) run ./release -version '$(VERSION)' -check

site: ## write the documentation as a static site into bin/site: make site VERSION=v0.2.0
	@$(GO) run ./release/site -version '$(VERSION)'

clean: ## remove what build made
	rm -rf bin
