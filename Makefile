# Works in GNU make and in BSD make: "!=" for shell output, no functions, no conditionals.
#
#   make build    every program for this host into bin/
#   make demo     start the whole suite in a temporary folder and show what it does
#   make test     all tests, race detector on
#   make lint     gofmt, vet and staticcheck for Linux and FreeBSD, govulncheck, shellcheck
#   make bench    one table of measurements
#   make install  DESTDIR= PREFIX=/usr/local
#   make freebsd-kit ARCH=amd64   what shows on a real FreeBSD host that all of it works, in one archive
#   make package  .pkg files for FreeBSD, made on any host, in dist/

GO ?= go
PREFIX ?= /usr/local
DESTDIR ?=
BIN ?= bin
# FreeBSD on arm64 has no race detector: make test RACE=
RACE ?= -race
# An example of a faculty, a module of its own as an operator's would be.
NOTEBOOK = examples/faculty-notebook
# What vet and staticcheck look at. A machine that has compiled nothing needs two minutes for each.
LINT_FOR ?= linux/amd64 freebsd/amd64 freebsd/arm64
# A single package: make test PKG=./ring/
PKG ?= ./...

VERSION != git describe --tags --always --dirty 2>/dev/null || echo devel
PROGRAMS != ls cmd

# The programs are static, and playground-supervise and playground-worker must stay so: capabilities and seccomp filters are per thread, and a
# cgo runtime starts threads that the Go runtime does not know. Hence one fixed way to build.
GOBUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "-s -w -X playground/version.version=$(VERSION)"

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.1
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
SCRIPTS = .ci/run rc.d/playground rc.d/playground_facultyd rc.d/playground_jaild rc.d/playground_reaperd internal/mkpkg/scripts/*.sh kit/kit kit/*.sh examples/*.sh

.PHONY: all build test lint fmt vet staticcheck vuln shell demo bench install install-files clean man package port-files install-data
# BSD make must stay in this folder even where an obj/ exists.
.OBJDIR: ./

all: build

build:
	@mkdir -p $(BIN)
	$(GOBUILD) -o $(BIN)/ ./cmd/...
	@tool="$(BIN)/playground"; \
	if ! "$$tool" version >/dev/null 2>&1; then \
		tool="$(BIN)/host/playground"; GOOS= GOARCH= $(GOBUILD) -o "$$tool" ./cmd/playground || exit 1; \
	fi; \
	mkdir -p $(BIN)/completions && for shell in bash zsh fish; do \
		"$$tool" completion $$shell >$(BIN)/completions/playground.$$shell || exit 1; \
	done

# Tests that need the real programs take them from bin/, so that these are never built with the race detector.
test: build
	PLAYGROUND_BIN="$$(cd $(BIN) && pwd)" $(GO) test $(RACE) -timeout 10m $(PKG)
	cd $(NOTEBOOK) && $(GO) test $(RACE) ./...

lint: fmt vet staticcheck vuln shell man

fmt:
	@files="$$(gofmt -l .)"; if [ -n "$$files" ]; then echo "not formatted (run gofmt -w):"; echo "$$files"; exit 1; fi
	@echo "gofmt: clean"

# -trimpath here and below, as in builds: what was compiled once is then compiled for all of them.
vet:
	@for target in $(LINT_FOR); do \
		for dir in . $(NOTEBOOK); do \
			(cd $$dir && CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) vet -trimpath ./...) || exit 1; \
		done; echo "vet $$target: clean"; \
	done

# One run over all platforms, so that what only one of them uses does not count as unused on the others. Its cache is this
# checkout's own: with -trimpath it would mix up the places of files in two checkouts.
staticcheck:
	@GOBIN="$$(pwd)/.tools" $(GO) install $(STATICCHECK)
	@for target in $(LINT_FOR); do \
		echo "$$target: GOFLAGS=-trimpath CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/}"; \
	done | tr / _ | STATICCHECK_CACHE="$$(pwd)/.tools/cache" .tools/staticcheck -matrix ./...
	@echo "staticcheck $(LINT_FOR): clean"

# Exit status 3 is a finding; any other failure is a database out of reach, which must not fail an offline build.
vuln:
	@GOBIN="$$(pwd)/.tools" $(GO) install $(GOVULNCHECK)
	@.tools/govulncheck ./... >.tools/vuln.log 2>&1; status=$$?; \
	if [ $$status -eq 0 ]; then echo "govulncheck: clean"; \
	elif [ $$status -eq 3 ]; then cat .tools/vuln.log; exit 1; \
	else echo "govulncheck: SKIPPED, cannot run: $$(tail -n 1 .tools/vuln.log)"; fi

shell:
	@for script in rc.d/*; do sh -n $$script || exit 1; done
	@if command -v shellcheck >/dev/null 2>&1; then shellcheck $(SCRIPTS) && echo "shellcheck: clean"; \
	else echo "shellcheck: SKIPPED, not installed"; fi

# Fails on what a reader would see; internal/archtest compares the pages with the programs.
man:
	@if command -v mandoc >/dev/null 2>&1; then mandoc -T lint -W warning man/* && echo "mandoc: clean"; \
	else echo "mandoc: SKIPPED, not installed"; fi

demo: build
	@$(BIN)/playground demo

bench: build
	@$(BIN)/playground bench

install: build install-files

# Packages for pkg(8), without FreeBSD: make package ARCHS=arm64 ABIS=15. Equal commits give equal bytes.
ARCHS ?= amd64,arm64
ABIS ?= 13,14,15
DIST ?= dist
package:
	@SOURCE_DATE_EPOCH="$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct 2>/dev/null || echo 0)}" MAKE="$(MAKE)" \
		$(GO) run ./internal/mkpkg -arch $(ARCHS) -abi $(ABIS) -version "$(VERSION)" -out $(DIST)

# The port's rc scripts and packing list come from here; a test compares them.
port-files:
	@for script in rc.d/*; do sed 's|/usr/local|%%PREFIX%%|g' $$script >port/files/$${script#rc.d/}.in || exit 1; done
	@grep -v ' etc/rc\.d/' pkg-plist >port/pkg-plist

# Every file below is listed in pkg-plist; a test compares the two.
install-files: install-data
	install -d -m 0755 $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/libexec/playground
	install -d -m 0755 $(DESTDIR)$(PREFIX)/etc/rc.d
	for program in $(PROGRAMS); do \
		case $$program in \
		playground-launch|playground-supervise|playground-worker) target=libexec/playground/$${program#playground-};; \
		*) target=sbin/$$program;; \
		esac; \
		install -m 0755 $(BIN)/$$program $(DESTDIR)$(PREFIX)/$$target || exit 1; \
	done
	install -m 0555 rc.d/playground rc.d/playground_facultyd rc.d/playground_jaild rc.d/playground_reaperd $(DESTDIR)$(PREFIX)/etc/rc.d/

# What is the same on every architecture; the port installs the rest itself.
install-data:
	install -d -m 0755 $(DESTDIR)$(PREFIX)/etc/playground $(DESTDIR)$(PREFIX)/etc/newsyslog.conf.d
	install -m 0640 etc/playground.toml.sample $(DESTDIR)$(PREFIX)/etc/playground/playground.toml.sample
	install -m 0644 etc/newsyslog.conf.sample $(DESTDIR)$(PREFIX)/etc/newsyslog.conf.d/playground.conf.sample
	install -d -m 0755 $(DESTDIR)$(PREFIX)/share/doc/playground $(DESTDIR)$(PREFIX)/share/man/man5 $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 0644 README.md ARCHITECTURE.md CHANGELOG.md LICENSE $(DESTDIR)$(PREFIX)/share/doc/playground/
	for page in man/*.[0-9]; do \
		name=$(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page#man/}.gz; gzip -9nc $$page >$$name && chmod 0644 $$name || exit 1; \
	done
	install -d -m 0755 $(DESTDIR)$(PREFIX)/share/bash-completion/completions $(DESTDIR)$(PREFIX)/share/zsh/site-functions
	install -d -m 0755 $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
	install -m 0644 $(BIN)/completions/playground.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/playground
	install -m 0644 $(BIN)/completions/playground.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_playground
	install -m 0644 $(BIN)/completions/playground.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/playground.fish

# Everything that an acceptance on a real FreeBSD host takes, for amd64 or arm64; kit/README says how to run it.
ARCH ?= amd64
.PHONY: freebsd-kit
freebsd-kit:
	@MAKE="$(MAKE)" $(GO) run ./kit/mkkit -arch $(ARCH) -version "$(VERSION)" -out $(DIST)

clean:
	rm -rf $(BIN) $(DIST) .tools
