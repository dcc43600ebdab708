# What people do with this repository. Everything is built here; only Go, make, bash, git and python3 must be there.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

export CGO_ENABLED ?= $(shell command -v $${CC:-cc} >/dev/null 2>&1 && echo 1 || echo 0)

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
KUBERNETES := $(shell sed -n 's/^\tk8s.io\/kubernetes //p' testcluster/go.mod)
LINT_VERSION := v2.12.2
VULN_VERSION := v1.8.0

# The race detector needs a C compiler.
RACE := $(if $(filter 1,$(CGO_ENABLED)),-race)

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/shell-operator
	@echo 'building bin/shell-operator' >&2
	@go build -ldflags '-X main.version=$(VERSION)' -o bin/shell-operator ./cmd/shell-operator

testcluster: bin/testcluster ## build bin/testcluster: etcd, API server, controller manager and kubectl in one file

# Clients parse the version that the API server reports.
STAMP := k8s.io/component-base/version
TESTCLUSTER_FLAGS := -s -w -X $(STAMP).gitVersion=$(KUBERNETES) -X $(STAMP).gitTreeState=clean
TESTCLUSTER_FLAGS += -X $(STAMP).gitMajor=$(patsubst v%,%,$(word 1,$(subst ., ,$(KUBERNETES))))
TESTCLUSTER_FLAGS += -X $(STAMP).gitMinor=$(word 2,$(subst ., ,$(KUBERNETES)))
bin/testcluster: $(wildcard testcluster/*.go) testcluster/go.mod testcluster/go.sum
	@scripts/build-testcluster.sh '$(TESTCLUSTER_FLAGS)'

tools: bin/tools/jq bin/tools/htpasswd bin/tools/ping bin/tools/mysql bin/tools/mysqld bin/tools/kubectl ## build bin/tools: what hooks call, from jq to mysql

bin/tools/jq: tools/go.mod
	@mkdir -p bin/tools && cd tools && go build -o ../bin/tools/jq github.com/itchyny/gojq/cmd/gojq
bin/tools/htpasswd: tools/go.mod $(wildcard tools/htpasswd/*.go)
	@mkdir -p bin/tools && cd tools && go build -o ../bin/tools/htpasswd ./htpasswd
bin/tools/ping: tools/go.mod $(wildcard tools/ping/*.go)
	@mkdir -p bin/tools && cd tools && go build -o ../bin/tools/ping ./ping
bin/tools/mysql: tools/go.mod $(wildcard tools/mysql/*.go)
	@mkdir -p bin/tools && cd tools && go build -o ../bin/tools/mysql ./mysql
bin/tools/mysqld: tools/go.mod $(wildcard tools/mysqld/*.go)
	@mkdir -p bin/tools && cd tools && go build -o ../bin/tools/mysqld ./mysqld
bin/tools/kubectl:
	@mkdir -p bin/tools && ln -sf ../testcluster bin/tools/kubectl

demo: build testcluster tools ## see a hook run on a real control plane; HOOKS=dir keeps running with your hooks
	@HOOKS='$(HOOKS)' scripts/demo.sh

test: testcluster tools ## run all tests, with the race detector where there is a C compiler
	@scripts/test.sh $(RACE)

# It needs Chromium or Chrome, so it is no part of make test. PICTURE=1 takes the picture of the documentation anew.
test-browser: testcluster tools ## look at the status page in a real browser
	@TESTCLUSTER=required go test -count=1 -tags browser -run TestStatusPage ./test/insight $(if $(PICTURE),-update)

FUZZ := ParseConfig:internal/wire ParsePatches:internal/wire ParseMetrics:internal/wire ParseAdmission:internal/wire ParseConversion:internal/wire ParseHTTP:internal/wire Request:internal/source/http Review:internal/source/webhook/admission Review:internal/source/webhook/conversion
# Counted, not timed: the deadline of a timed run fails it now and then on a busy machine.
fuzz: ## feed random input to the parsers of what hooks write, a few seconds each; FUZZTIME=10m for longer
	@for target in $(FUZZ); do \
		go test -run '^$$' -fuzz "^Fuzz$${target%%:*}$$" -fuzztime $(or $(FUZZTIME),50000x) "./$${target#*:}" | grep -v '^fuzz: elapsed'; \
	done

bench: build testcluster tools ## print the figures for speed and memory
	@BENCH=1 TESTCLUSTER=required go test -count=1 -v ./bench | grep -v '^=== '
	@BENCH=1 go test -count=1 -v -run TestCost ./sdk/shell | grep -v '^=== '

vet: ## run go vet
	@go vet ./... && cd tools && go vet ./... && cd ../testcluster && go vet .

lint: bin/tools/golangci-lint-$(LINT_VERSION) ## run golangci-lint
	@# A cache of its own: results of another clone name files that may be gone.
	@GOLANGCI_LINT_CACHE=$(CURDIR)/bin/lint-cache bin/tools/golangci-lint-$(LINT_VERSION) run ./...

bin/tools/golangci-lint-$(LINT_VERSION):
	@echo 'building golangci-lint $(LINT_VERSION), a few minutes the first time' >&2
	@GOBIN=$(CURDIR)/bin/tools go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv bin/tools/golangci-lint $@

vuln: ## look for known vulnerabilities in what the program uses
	@scripts/vuln.sh $(VULN_VERSION)

clean: ## remove what was built
	@rm -rf bin

.PHONY: help build testcluster tools demo test test-browser fuzz bench vet lint vuln clean
