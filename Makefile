# make            build bin/fetcher
# make demo       share docs from one process, fetch it with another, compare
# make services   NATS and etcd on this machine, for rounds, until Ctrl-C
# make test       the tests that are quick, of most packages; LONG=1 make test is all of them
# make examples   the tests of the apps in examples, and of deploy/fleet, each a module of its own
# make check      what must pass before a change is handed in
# make interop    the binary and an implementation in JavaScript, both ways
# make page       the page of a node in a browser; needs Node 20, npm and Chromium
# make alerts     the alerts on nodes; needs promtool
# make fleet-trial  20 processes in network namespaces, behind a slow line: root, minutes
# make reach      who can reach whom through which routers: the table of docs/reach.md
# make soak       two nodes at work for SOAK, 20m: memory, goroutines, descriptors
# make bench      the benchmarks: minutes, and a quiet machine
# make bench-peers  beside curl, aria2 and anacrolix/torrent, which are not part of this module
# make fuzz       every fuzz target, FUZZTIME each
# make generate   wire/wirepb from wire/*.proto
# make dist       packages for all systems, into dist/; needs GNU tar, gzip and zip
# make packages   packages for this system, tried out; needs Debian and root

GO       ?= go
FUZZTIME ?= 1000x

# Nodes that run here do not look for peers on the local network.
export FETCHER_LAN ?= false

.PHONY: build demo test check race vet lint fuzz bench generate generated interop services fleet-trial page alerts examples reach

# grpcnotrace leaves out pages that nothing here serves, and html/template with them: with it, the
# linker keeps methods that nothing calls, 15 % of all. What debuggers read, which deploy/dist strips,
# is not made: linking the largest takes a third less. Whoever debugs builds without these flags.
FLAGS = -tags=grpcnotrace -trimpath -gcflags=all=-dwarf=false -ldflags=-s

build:
	CGO_ENABLED=0 $(GO) build $(FLAGS) -o bin/fetcher ./cmd/fetcher

demo: build
	@rm -rf bin/demo && mkdir bin/demo
	@bin/fetcher share docs --dir bin/demo/state >bin/demo/ticket & share=$$!; trap 'kill $$share; wait $$share' EXIT; \
	until [ -s bin/demo/ticket ]; do kill -0 $$share || exit 1; sleep 0.1; done; \
	bin/fetcher fetch --dir bin/demo/state -o bin/demo - <bin/demo/ticket && diff -r docs bin/demo/docs && echo "bin/demo/docs is what docs is"

# Their data is in bin/nats and bin/etcd.
services:
	$(GO) build -o bin/nats-server github.com/nats-io/nats-server/v2
	@mkdir -p bin/nats && echo 'host: 127.0.0.1, jetstream { store_dir: bin/nats, sync_interval: always }' >bin/nats/conf
	@echo "nats://127.0.0.1:4222/NAME  etcd://127.0.0.1:2379/NAME"
	@bin/nats-server --config bin/nats/conf & nats=$$!; trap 'kill $$nats' EXIT; etcd --data-dir bin/etcd --log-level warn

# Four packages at once: on two cores, half of them wait; first those that take longest. make vet finds more than the
# checks of go vet that go test would repeat. Compiled as in make build: nothing twice, and less to link. Half of the
# time is linking: without LONG=1, packages that few others use are left out.
LATER = bench|depot/archive|discovery|discovery/dht|passes/issuer|rounds/(etcdkv|kvurl|natskv|sqlitekv)|simnet/(cores|depots|model|report)|spoken|store/storetest
TESTED = $(if $(LONG),./...,$$($(GO) list ./... | grep -vE '/fetcher/($(LATER))$$'))

test:
	CGO_ENABLED=0 $(GO) test $(FLAGS) -vet=off -p 4 -timeout 30m $(TESTFLAGS) ./store ./cmd/fetcher . ./daemon ./p2p ./simnet/bubble $(TESTED)

# They may use what others may. After a change of our go.mod: go -C examples/NAME mod tidy.
examples:
	@for app in examples/*/; do echo "$$app" && $(GO) -C $$app mod tidy -diff && $(GO) -C $$app vet ./... && $(GO) -C $$app test ./... || exit 1; done

check: TESTED = ./...
check: lint vet generated test race

# Without pure packages, which share nothing and have no unsafe code: the packages that use
# them are checked instead.
RACELESS = leasemgr|fetchpool|verifier|fleet|transfer|peers|renewal|passes|depot|wire|internal/bounds|internal/times|internal/words

# Packages whose tests are one goroutine, or measure.
ALONE = depot/archive|internal/rig|internal/sqlitedb|simnet/cores|simnet/model|simnet/report|simnet/depots|bench|web|deploy/licences

race:
	CGO_ENABLED=1 GO=$(GO) .ci/race $$($(GO) list ./... | grep -vE '/fetcher/($(RACELESS)|$(ALONE))$$')

# For this system; TestOtherSystems checks the types for the others, at a twentieth of the cost.
vet:
	$(GO) vet ./...

lint:
	@bad=$$(gofmt -l .) && test -z "$$bad" || { echo "not formatted:" $$bad; exit 1; }
	$(GO) tool staticcheck ./...
	$(GO) mod tidy -diff
	@! command -v node >/dev/null || for f in web/static/*.js; do node --input-type=module --check <$$f || exit 1; done

# Fetches between all kinds of network situations, twenty seeds of each.
reach:
	@REACH_SEEDS=20 $(GO) test -count=1 -timeout 20m -v -run '^TestReach$$' ./simnet/bubble | grep -E '^ +\||FAIL|want|ok'

# FLEET_TRIAL members, TRIAL_MIB MiB, TRIAL_MBIT Mbit/s, TRIAL_AWAY seconds without the store, TRIAL_QUIC=1 over QUIC. TRIAL_STORY=parts cuts half of them
# off from the others and the store, paused stops the coordinator for a while, clock sets the clock of one an hour ahead.
fleet-trial:
	FLEET_TRIAL=$${FLEET_TRIAL:-20} $(GO) test -count=1 -timeout 40m -v -run '^TestFleetTrial$$' ./cmd/fetcher

# Two nodes at work for SOAK; prints what they hold, and fails if that grows.
.PHONY: soak
soak:
	SOAK=$${SOAK:-20m} $(GO) test -count=1 -timeout 0 -v -run '^TestSoak$$' ./cmd/fetcher

fuzz:
	.ci/fuzz $(FUZZTIME)

interop: build
	cd interop && npm ci && npm test

page: build
	cd web/browser && npm ci && npm test

.PHONY: dist packages
dist:
	deploy/dist

packages:
	deploy/test-packages

alerts:
	cd deploy/prometheus && promtool check rules alerts.yml && promtool test rules alerts_test.yml

bench:
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 60m ./bench/

.PHONY: bench-peers
bench-peers:
	cd bench/peers && CGO_ENABLED=0 $(GO) build -o ../../bin/bench-peers .
	BENCH_PEERS=$$PWD/bin/bench-peers $(GO) test -run '^$$' -bench Peers -benchtime 1x -timeout 60m ./bench/

generate:
	protoc -Iwire --plugin=protoc-gen-go="$$($(GO) tool -n protoc-gen-go)" --go_out=. \
		--go_opt=module=github.com/piecelease/fetcher wire/*.proto

# Fails if generate would change anything.
generated:
	@old=$$(cat wire/wirepb/*.pb.go | cksum); $(MAKE) --no-print-directory generate; \
		new=$$(cat wire/wirepb/*.pb.go | cksum); \
		test "$$old" = "$$new" || { echo "wire/wirepb was not what make generate makes"; exit 1; }
