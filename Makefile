# Works in GNU make and in BSD make: "!=" for shell output, no functions, no conditionals.
#
#   make build    every program for this host into bin/
#   make demo     start the whole suite in a temporary folder and show what it does
#   make test     all tests, race detector on
#   make lint     gofmt, vet and staticcheck for Linux and FreeBSD, govulncheck, shellcheck
#   make bench    one table of measurements
#   make install  DESTDIR= PREFIX=/usr/local

GO ?= go
PREFIX ?= /usr/local
DESTDIR ?=
BIN ?= bin
# FreeBSD on arm64 has no race detector: make test RACE=
RACE ?= -race
# A single package: make test PKG=./ring/
PKG ?= ./...

VERSION != git describe --tags --always --dirty 2>/dev/null || echo devel
PROGRAMS != ls cmd

# The programs are static, and playground-supervise must stay so: capabilities and seccomp filters are per thread, and a
# cgo runtime starts threads that the Go runtime does not know. Hence one fixed way to build.
GOBUILD = CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=false -ldflags "-s -w -X playground/version.version=$(VERSION)"

STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.1
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
SCRIPTS = .ci/run rc.d/playground rc.d/playground_jaild rc.d/playground_reaperd

.PHONY: all build test lint fmt vet staticcheck vuln shell demo bench install install-files clean
# BSD make must stay in this folder even where an obj/ exists.
.OBJDIR: ./

all: build

build:
	@mkdir -p $(BIN)
	$(GOBUILD) -o $(BIN)/ ./cmd/...

# Tests that need the real programs take them from bin/, so that these are never built with the race detector.
test: build
	PLAYGROUND_BIN="$$(cd $(BIN) && pwd)" $(GO) test $(RACE) -timeout 10m $(PKG)

lint: fmt vet staticcheck vuln shell

fmt:
	@files="$$(gofmt -l .)"; if [ -n "$$files" ]; then echo "not formatted (run gofmt -w):"; echo "$$files"; exit 1; fi
	@echo "gofmt: clean"

vet:
	@for target in linux/amd64 freebsd/amd64 freebsd/arm64; do \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} $(GO) vet ./... || exit 1; echo "vet $$target: clean"; \
	done

# One run over all platforms, so that what only one of them uses does not count as unused on the others.
staticcheck:
	@GOBIN="$$(pwd)/.tools" $(GO) install $(STATICCHECK)
	@printf 'linux: CGO_ENABLED=0 GOOS=linux GOARCH=amd64\namd64: CGO_ENABLED=0 GOOS=freebsd GOARCH=amd64\narm64: CGO_ENABLED=0 GOOS=freebsd GOARCH=arm64\n' | \
		.tools/staticcheck -matrix ./...
	@echo "staticcheck linux/amd64 freebsd/amd64 freebsd/arm64: clean"

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

demo: build
	@$(BIN)/playground demo

bench: build
	@$(BIN)/playground bench

install: build install-files

# Every file below is listed in pkg-plist; a test compares the two.
install-files:
	install -d -m 0755 $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/libexec/playground
	install -d -m 0755 $(DESTDIR)$(PREFIX)/etc/rc.d $(DESTDIR)$(PREFIX)/etc/playground $(DESTDIR)$(PREFIX)/etc/newsyslog.conf.d
	install -d -m 0755 $(DESTDIR)$(PREFIX)/share/doc/playground
	for program in $(PROGRAMS); do \
		case $$program in \
		playground-launch|playground-supervise) target=libexec/playground/$${program#playground-};; \
		*) target=sbin/$$program;; \
		esac; \
		install -m 0755 $(BIN)/$$program $(DESTDIR)$(PREFIX)/$$target || exit 1; \
	done
	install -m 0555 rc.d/playground rc.d/playground_jaild rc.d/playground_reaperd $(DESTDIR)$(PREFIX)/etc/rc.d/
	install -m 0640 etc/playground.toml.sample $(DESTDIR)$(PREFIX)/etc/playground/playground.toml.sample
	install -m 0644 etc/newsyslog.conf.sample $(DESTDIR)$(PREFIX)/etc/newsyslog.conf.d/playground.conf.sample
	install -m 0644 README.md ARCHITECTURE.md CHANGELOG.md LICENSE $(DESTDIR)$(PREFIX)/share/doc/playground/

clean:
	rm -rf $(BIN) .tools
