# Needs only Go, make, bash, git and python3; everything else is built here. make image-shell needs a container engine.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED ?= $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo 1 || echo 0)

VERSION := $(or $(VERSION),$(shell git describe --tags --always --dirty 2>/dev/null || echo dev))
# The version of the test cluster. make testcluster KUBERNETES=v1.35.4 builds bin/testcluster-1.35 from the same sources.
CURRENT := $(shell sed -n 's/^\tk8s.io\/kubernetes //p' testcluster/go.mod)
KUBERNETES := $(CURRENT)
# Tested by make long, too: docs/how-to/upgrade.md.
OLDER := v1.35.4 v1.34.4
LINT_VERSION := v2.12.2
VULN_VERSION := v1.8.0
HUGO := bin/tools/hugo-$(shell sed -n 's/^\tgithub.com\/gohugoio\/hugo \(v[0-9.]*\).*/\1/p' tools/hugo/go.mod)

# The race detector needs a C compiler.
RACE := $(if $(filter 1,$(CGO_ENABLED)),-race)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Without cgo, as in a release: benchmarks measure what users get.
build: ## build bin/shell-operator
	@echo 'building bin/shell-operator' >&2
	@CGO_ENABLED=0 go build -ldflags '-X main.version=$(VERSION)' -o bin/shell-operator ./cmd/shell-operator

TESTCLUSTER := bin/testcluster$(if $(filter-out $(CURRENT),$(KUBERNETES)),-$(basename $(KUBERNETES:v%=%)))
testcluster: $(TESTCLUSTER) ## build bin/testcluster: etcd, API server, controller manager and kubectl in one binary; KUBERNETES=v1.35.4

# Clients parse the version that the API server reports.
STAMP := k8s.io/component-base/version
TESTCLUSTER_FLAGS := -s -w -X $(STAMP).gitVersion=$(KUBERNETES) -X $(STAMP).gitTreeState=clean
TESTCLUSTER_FLAGS += -X $(STAMP).gitMajor=$(patsubst v%,%,$(word 1,$(subst ., ,$(KUBERNETES))))
TESTCLUSTER_FLAGS += -X $(STAMP).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))
$(TESTCLUSTER): $(wildcard testcluster/*.go) testcluster/go.mod testcluster/go.sum
	@scripts/build-testcluster.sh '$(KUBERNETES)' $@ '$(TESTCLUSTER_FLAGS)'

test-kubernetes: testcluster tools ## run the conformance scripts on the control plane of KUBERNETES=v1.35.4
	@scripts/with-cluster.sh $(TESTCLUSTER) go test -count=1 -timeout 30m ./test/conformance

stand-ins: $(addprefix bin/tools/,jq htpasswd ping mysql mysqld)
tools: stand-ins bin/tools/kubectl bin/kubectl bin/tools/flux-crds.yaml ## build bin/tools: jq, kubectl and other programs that hooks call

bin/tools/jq: tools/go.mod
	@mkdir -p bin/tools && cd tools && CGO_ENABLED=0 go build -o ../bin/tools/jq github.com/itchyny/gojq/cmd/gojq
bin/tools/htpasswd: tools/go.mod $(wildcard tools/htpasswd/*.go)
	@mkdir -p bin/tools && cd tools && CGO_ENABLED=0 go build -o ../bin/tools/htpasswd ./htpasswd
bin/tools/ping: tools/go.mod $(wildcard tools/ping/*.go)
	@mkdir -p bin/tools && cd tools && CGO_ENABLED=0 go build -o ../bin/tools/ping ./ping
bin/tools/mysql: tools/go.mod $(wildcard tools/mysql/*.go)
	@mkdir -p bin/tools && cd tools && CGO_ENABLED=0 go build -o ../bin/tools/mysql ./mysql
bin/tools/mysqld: tools/go.mod $(wildcard tools/mysqld/*.go)
	@mkdir -p bin/tools && cd tools && CGO_ENABLED=0 go build -o ../bin/tools/mysqld ./mysqld
bin/tools/kubectl: bin/kubectl
	@mkdir -p bin/tools && ln -sf ../kubectl $@

# The programs of make test. Only Linux has a use for the trimmed kubectl.
memory: bin/memory/kubectl bin/memory/jq ## build bin/memory: jq and the trimmed kubectl alone, for make test
bin/memory/kubectl: scripts/build-kubectl.sh kubectl/go.mod kubectl/go.sum $(shell find kubectl -name '*.go')
	@echo 'building bin/memory/kubectl' >&2
	@COMPLETE=$(if $(filter Linux,$(shell uname -s)),./absent,.) scripts/build-kubectl.sh bin/memory
bin/memory/jq: bin/tools/jq
	@mkdir -p bin/memory && ln -sf ../tools/jq $@

# Flux's helm-controller and its CRDs, from the Go module proxy.
bin/tools/helm-controller: tools/helm-controller/go.mod tools/helm-controller/go.sum
	@echo 'building helm-controller, two minutes the first time' >&2
	@mkdir -p bin/tools && cd tools/helm-controller && CGO_ENABLED=0 go build -o ../../$@ github.com/fluxcd/helm-controller
bin/tools/flux-crds.yaml: scripts/flux-crds.sh tools/helm-controller/go.mod
	@mkdir -p bin/tools && scripts/flux-crds.sh >$@.new && mv $@.new $@

addons: bin/tools/helm-controller bin/tools/jq bin/tools/flux-crds.yaml ## build what the example addons needs: helm-controller and its CRDs

test-addons: build testcluster tools addons ## run the example addons with Flux's helm-controller, as in its README
	@ADDONS=1 TESTCLUSTER=required go test -count=1 -timeout 30m -v -run TestAddonsWithFlux ./examples | grep -Ev '^=== '
	@ADDONS=1 TESTCLUSTER=required go test -count=1 -timeout 30m -run TestAddonsPage ./test/tutorial

kubectl: bin/kubectl ## build bin/kubectl and bin/kubectl-trimmed, with which hooks call it

# After bin/testcluster, with which it shares most packages: that one shows how far the build is.
bin/kubectl: scripts/build-kubectl.sh kubectl/go.mod kubectl/go.sum $(shell find kubectl -name '*.go' ! -path '*/absent/*') | $(TESTCLUSTER)
	@echo 'building bin/kubectl' >&2
	@scripts/build-kubectl.sh bin

# Apart from tools: the demo does not need them.
delivery-tools: $(addprefix bin/tools/,chart image promql actionlint) ## build bin/tools/chart, image, promql, actionlint: used by the targets below and tests of deploy

bin/tools/chart bin/tools/image bin/tools/promql: bin/tools/%: tools/go.mod tools/go.sum $(wildcard tools/*/*.go)
	@mkdir -p bin/tools && cd tools && CGO_ENABLED=0 go build -o ../$@ ./$*
bin/tools/actionlint: tools/go.mod
	@mkdir -p bin/tools && cd tools && CGO_ENABLED=0 go build -o ../$@ github.com/rhysd/actionlint/cmd/actionlint

# Static, without Sass and Node, which the theme does not need.
$(HUGO): tools/hugo/go.mod tools/hugo/go.sum
	@echo 'building $(@F), a few minutes the first time' >&2
	@mkdir -p bin/tools && cd tools/hugo && CGO_ENABLED=0 go build -ldflags='-s -w' -o ../../$@ github.com/gohugoio/hugo

# Of the work tree and of the newest patch of each minor release. Every link is checked.
site: $(HUGO) ## build bin/site: the documentation with search, for each release; open bin/site/index.html
	@cd tools && CGO_ENABLED=0 go build -o ../bin/tools/site ./site
	@bin/tools/site --hugo $(HUGO) --to bin/site

# PICTURE=1 writes bin/site.png and the pictures of README and the site in docs/pictures.
test-site: site ## test the site: versions of a repository with tags, and the search in a browser if there is one
	@cd tools && SITE='$(CURDIR)/$(HUGO)' go test -count=1 -v -run TestSite ./site | grep -Ev '^=== '
	@if scripts/browser.sh >/dev/null; then go test -count=1 -tags browser ./test/site $(if $(PICTURE),-update); \
		else echo 'make test-site: there is no browser, so the search is not tested'; fi

# Reproducible: no paths, no build ids, the time of the commit. Without git, set SOURCE_DATE_EPOCH and VERSION.
export SOURCE_DATE_EPOCH := $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct 2>/dev/null || echo 0))
REVISION := $(shell git rev-parse HEAD 2>/dev/null)
PLATFORMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
BINARIES := $(addprefix bin/dist/shell-operator-,$(PLATFORMS))
# Charts have semantic versions.
CHART_VERSION := $(if $(filter v%,$(VERSION)),$(VERSION:v%=%),0.0.0-g$(VERSION))

bin/dist/shell-operator-%: FORCE
	@echo 'building $@' >&2
	@CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$*)) GOARCH=$(word 2,$(subst -, ,$*)) \
		go build -trimpath -buildvcs=false -ldflags '-s -w -buildid= -X main.version=$(VERSION)' -o $@ ./cmd/shell-operator

LICENSES := bin/dist/third-party-licenses.txt
$(LICENSES): go.mod go.sum scripts/licenses.sh
	@mkdir -p $(@D) && scripts/licenses.sh . ./cmd/shell-operator >$@

dist: $(BINARIES) $(LICENSES) delivery-tools ## build bin/dist: binaries for Linux and macOS with SBOMs, licences, the chart, the wheel of the Python library, checksums
	@rm -f bin/dist/*.tgz bin/dist/*.whl bin/dist/*.cdx.json bin/dist/SHA256SUMS
	@for binary in $(BINARIES); do bin/tools/image sbom --version '$(VERSION)' "$$binary" >"$$binary.cdx.json"; done
	@bin/tools/chart package --version '$(CHART_VERSION)' --app-version '$(VERSION)' --to bin/dist deploy/chart
	@scripts/build-wheel.py '$(VERSION)' bin/dist
	@cd bin/dist && sha256sum * >SHA256SUMS

image: bin/dist/shell-operator-linux-amd64 bin/dist/shell-operator-linux-arm64 $(LICENSES) delivery-tools ## build bin/image: a static image for amd64 and arm64 as an OCI layout, without Docker
	@bin/tools/image build --to bin/image --version '$(VERSION)' --revision '$(REVISION)' --time "$$SOURCE_DATE_EPOCH" --licenses $(LICENSES) \
		--binary linux/amd64=bin/dist/shell-operator-linux-amd64 --binary linux/arm64=bin/dist/shell-operator-linux-arm64

test-reproducible: image ## build the image again with an empty cache and compare the digests
	@cp bin/image/index.json bin/first-index.json
	@cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && GOCACHE=$$cache $(MAKE) --no-print-directory image
	@cmp bin/first-index.json bin/image/index.json

release: delivery-tools bin/tools/jq ## check bin/dist and bin/image (make dist image) and print the steps of a release; PUBLISH=1 runs them
	@VERSION='$(VERSION)' scripts/release.sh

# Not taken from the environment, where a release has another one.
IMAGE := shell-operator:dev
image-shell: ## build the image with a shell by Docker, Podman or Buildah; IMAGE=name:tag, ENGINE=podman
	@engine=$$(scripts/engine.sh docker podman buildah) && \
		"$$engine" build --build-arg 'VERSION=$(VERSION)' -t '$(IMAGE)' -f deploy/image/Dockerfile .

test-image: image-shell ## test the image with a shell: any user, a read-only root, an image built on it
	@scripts/check-image.sh '$(IMAGE)'

demo: ## run hooks on an API server in memory; CONTROL_PLANE=real on a real one; HOOKS=dir keeps running with your hooks
	@HOOKS='$(HOOKS)' CONTROL_PLANE='$(CONTROL_PLANE)' scripts/demo.sh

# Most of its time is linking: without tables for debuggers, and without cgo, with the packages of make build. What waits longest starts
# first, beside packages that compute: there are two more of them than processors.
unit: ## run the tests that need no control plane, in a minute: while you work
	@CGO_ENABLED=0 go test -short -vet=off -ldflags='-s -w' -p $$(($$(getconf _NPROCESSORS_ONLN) + 2)) ./cmd/... ./sdk/... ./docs ./internal/...

test: ## run the tests that need no control plane, and the scripts that run on an API server in memory, in minutes
	@scripts/test.sh

test-cluster: testcluster tools delivery-tools ## run what needs a control plane, and the scripts again; what is about concurrency with the race detector, if there is a C compiler
	@scripts/test-cluster.sh $(RACE)

# Test and test-cluster, but scripts run on the control plane only: .ci/run.
test-all: testcluster tools delivery-tools
	@scripts/test-cluster.sh all $(RACE)

# The large numbers: each promise is tested by make test and test-cluster with small ones. Nightly, and by hand before a release. test-browser is
# left out where there is no browser.
long: export LONG := 1
long: ## run every test with its large numbers, for hours: all of test and test-cluster, bench-smoke, older Kubernetes, chaos, adversary, test-addons, fuzz, reach, test-clone, test-reproducible, test-site, test-browser
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory test-all
	@$(MAKE) --no-print-directory bench-smoke
	@for version in $(OLDER); do $(MAKE) --no-print-directory test-kubernetes KUBERNETES=$$version; done
	@$(MAKE) --no-print-directory chaos
	@$(MAKE) --no-print-directory adversary
	@$(MAKE) --no-print-directory test-addons
	@$(MAKE) --no-print-directory fuzz
	@$(MAKE) --no-print-directory reach
	@$(MAKE) --no-print-directory test-clone
	@$(MAKE) --no-print-directory test-reproducible
	@$(MAKE) --no-print-directory test-site
	@if scripts/browser.sh >/dev/null; then $(MAKE) --no-print-directory test-browser; \
		else echo 'make long: there is no browser, so test-browser is left out'; fi

# Most of its time is building the test cluster again.
test-clone: testcluster tools ## follow the first tutorial in a fresh clone of HEAD
	@FRESH_CLONE=1 TESTCLUSTER=required go test -count=1 -timeout 40m -run TestFirstHook ./test/tutorial

# Needs Chromium or Chrome, so it is not part of make test-cluster. PICTURE=1 replaces the screenshot in the documentation.
test-browser: testcluster tools bin/tools/axe.min.js ## test the status page and the console in a real browser, with axe-core from npm; PICTURE=1 for those of the pages
	@TESTCLUSTER=required go test -count=1 -tags browser -run TestStatusPage ./test/insight $(if $(PICTURE),-update)
	@go test -count=1 -tags browser ./internal/console
	@TESTCLUSTER=required go test -count=1 -tags browser ./test/console $(if $(PICTURE),-update)

bin/tools/axe.min.js: scripts/axe.sh
	@mkdir -p bin/tools && scripts/axe.sh $@

FUZZ = $(shell grep -roE '^func Fuzz\w+' --include='*_test.go' cmd internal | sed -E 's|(.*)/[^/]*:func Fuzz(.*)|\2:\1|' | sort)
# make test runs the seeds. Counted, not timed: a timed run fails at its deadline on a busy machine. Minimizing new inputs would
# take most of the time.
reach: ## print how many functions of the operator an event meets; DIR=folder writes their names
	@LONG=1 DIR='$(DIR)' go test -count=1 -v ./test/reach | grep -Ev '^=== '
	@go test -count=1 -v -run TestShape ./internal | grep -Ev '^=== '

fuzz: ## fuzz the parsers of everything that hooks write; FUZZTIME=10m for longer
	@for target in $(FUZZ); do \
		go test -run '^$$' -fuzz "^Fuzz$${target%%:*}$$" -fuzztime $(or $(FUZZTIME),50000x) -fuzzminimizetime 10x "./$${target#*:}" | grep -v '^fuzz: elapsed'; \
	done

chaos: testcluster tools ## run all fault injection cases, half an hour; SEED=n for other plans, CASE=name for one case
	@CHAOS=1 SEED='$(SEED)' CASE='$(CASE)' TESTCLUSTER=required go test $(RACE) -count=1 -timeout 90m -v ./test/chaos | grep -v -e '^=== ' -e '--- SKIP'

adversary: testcluster tools ## disturb workloads at each of their writes and watches; SEED=n for other plans, BUDGET=10m, CASE=name for one plan
	@ADVERSARY=1 SEED='$(SEED)' CASE='$(CASE)' BUDGET='$(BUDGET)' TESTCLUSTER=required go test -count=1 -timeout 2h -parallel 4 -v ./test/adversary | grep -Ev '^=== |--- SKIP'

bin/peers: bench/peers/main.go bench/peers/go.mod bench/peers/go.sum
	@cd bench/peers && CGO_ENABLED=0 go build -o ../../bin/peers .

bench: build testcluster tools bin/peers ## measure speed and memory, write bench/results.json; SCENARIO=name prints one of them, PROFILES=dir for profiles
	@BENCH=1 BENCH_PROFILES='$(abspath $(PROFILES))' TESTCLUSTER=required go test -count=1 -timeout 3h -v -run 'TestScenarios/$(if $(SCENARIO),^$(SCENARIO)$$)' ./bench -args $(if $(SCENARIO),,-results results.json) | grep -Ev '^(=== | *--- (PASS|SKIP)|PASS$$)'
ifndef SCENARIO
	@BENCH=1 go test -count=1 -v -run TestCost ./sdk/shell | grep -v '^=== '
endif

bench-smoke: ## count allocations per event and object, fail when they grow; UPDATE=1 accepts them
	@BENCH_SMOKE=1 go test -count=1 -timeout 20m -v -run TestSmoke ./bench $(if $(UPDATE),-args -update) | grep -Ev '^(=== |--- PASS|PASS$$)'

micro-bench: ## run the Go benchmarks, without a cluster
	@go test -run '^$$' -bench . -benchmem ./internal/... | grep -Ev 'no test files|^(goos|goarch|PASS|ok)'

vet: ## run go vet
	@for module in . tools testcluster kubectl bench/peers; do (cd $$module && go vet ./...); done

lint: bin/tools/golangci-lint-$(LINT_VERSION) ## run golangci-lint
	@# Its own cache: results cached for another clone name files of that clone.
	@GOLANGCI_LINT_CACHE=$(CURDIR)/bin/lint-cache bin/tools/golangci-lint-$(LINT_VERSION) run ./...

bin/tools/golangci-lint-$(LINT_VERSION):
	@echo 'building golangci-lint $(LINT_VERSION), a few minutes the first time' >&2
	@GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv bin/tools/golangci-lint $@

vuln: ## find known vulnerabilities in code that the operator can reach
	@scripts/vuln.sh $(VULN_VERSION)

clean: ## remove bin
	@rm -rf bin

.PHONY: help build testcluster test-cluster test-all test-kubernetes tools addons test-addons kubectl memory delivery-tools site test-site dist image test-reproducible release image-shell test-image demo stand-ins unit test long test-clone test-browser fuzz reach chaos adversary bench bench-smoke micro-bench vet lint vuln clean FORCE
