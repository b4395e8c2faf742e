# The targets of this repository; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
# Each module is built and tested as one that imports it gets it.
export GOWORK := off
.DEFAULT_GOAL := help
.PHONY: help kube kubefleet beside test lint generate fmt bench fuzz soak cover krew

# How long a benchmark and a fuzz target run, and which packages have benchmarks that are followed.
BENCHTIME ?= 1s
BENCH ?= .
BENCHPACKAGES ?= ./stages/... ./placement/... ./snapshot/... ./drift/... ./backend/... ./fleet/... ./hub/...
FUZZTIME ?= 10s
SOAK ?= 24h
# What make krew packs, and where.
VERSION ?= v0.0.0
DIST ?= dist

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

kube: ## etcd, the Kubernetes servers, kubectl and Prometheus that tests run, into bin; nine minutes the first time
	@.ci/kube

test: ## all tests with the race detector (needs a C compiler)
	@.ci/need
	@.ci/kube
	@.ci/postgres
	@.ci/part "all tests, with the race detector" .ci/test
	@echo "all of the trials of which the race detector had a sample: random runs, crashes, kills, paused and stopped leaders, attacks, decisions, flipped bits, images of a disk"
	@.ci/part "trials" .ci/trials

lint: ## golangci-lint; its first build takes minutes
	@.ci/lint

generate: ## deep copies and definitions of the Fleet API, the references of events and metrics, the recorded terminal
	@.ci/generate

fmt: ## format the Go files
	go tool -modfile=tools/go.mod golangci-lint fmt

bench: kube ## benchmarks; BENCHTIME=1s, BENCH=<regexp>, BENCHPACKAGES=<packages>
	go test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -timeout 30m $(BENCHPACKAGES)

fuzz: ## every fuzz target for FUZZTIME=10s
	@FUZZTIME=$(FUZZTIME) .ci/fuzz

soak: ## tests that take hours, every fuzz target for five minutes, then the soak program for SOAK=24h
	@.ci/need
	@.ci/kube
	@.ci/postgres
	SLIPWAY_SOAK=1 .ci/test -count=1 -timeout 12h
	@FUZZTIME=5m .ci/fuzz
	go run ./internal/soak -for $(SOAK)

kubefleet: kube ## KubeFleet's own suites against a hub, hours; FILES=<files of its suite>, PROCS=6
	@.ci/kubefleet

beside: kube ## KubeFleet's agents and a hub, one after the other, measured into one table, half an hour; SAMPLES=5
	@.ci/beside

cover: kube ## coverage of all packages by all tests, in cover.out
	go test -coverprofile cover.out -coverpkg ./... ./...
	go tool cover -func cover.out | tail -n 1

krew: ## archives of the kubectl plugin for all platforms with their krew manifest, in DIST=dist; VERSION=v1.2.3
	@.ci/krew $(VERSION) $(DIST)
