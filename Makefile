# What a newcomer and CI need. `make run` builds and starts the server; `make test` runs every test.
# Both install what they can and name what they cannot in one line (scripts/need).

.PHONY: needed book package test-package run run-cluster test-cluster build ui test test-quick test-live-long test-rust test-sdk sdk-docs test-ui test-e2e lint bench-guard bench-peers bench-peers-short bench-record schema clean
.DEFAULT_GOAL := build

UI_SOURCES := $(shell find ui -type f -not -path '*/node_modules/*' -not -path '*/dist/*' 2>/dev/null)

run: build
	target/release/ogive serve --data ./ogive-data $(ARGS)

# With the book, once `make book` has installed what builds it.
build: ui $(if $(wildcard target/tools/bin/mdbook),book)
	@scripts/need cargo cc
	cargo build --release --locked -p ogive

ui: ui/dist/index.html

# The documentation as a book; the binary serves it at /docs/. 0.5.4 is what book.toml is written for.
MDBOOK := target/tools/bin/mdbook
BOOK_SOURCES := book.toml $(shell find docs ui/theme -type f)

book: ui/book/dist/index.html

$(MDBOOK):
	@scripts/need cargo cc
	cargo install --debug --quiet --locked --root target/tools --version 0.5.4 --no-default-features --features search mdbook

ui/book/dist/index.html: $(MDBOOK) $(BOOK_SOURCES)
	$(MDBOOK) build
	@touch $@

ui/node_modules/.made: ui/package.json ui/package-lock.json
	@scripts/need node npm
	cd ui && npm ci --no-audit --no-fund
	@touch $@

ui/dist/index.html: ui/node_modules/.made $(UI_SOURCES)
	cd ui && npm run build
	@touch $@

# target/package: the Debian package with units, manual pages and completions, and the binary's debug information.
package: ui book
	scripts/package

# Installs it into a clean root and runs what its units run. Minutes, and root; not part of `make test`.
test-package: package
	scripts/test-package

RUST_NEEDS := aiosmtpd c++ cc chromium clang collectd curl dnsmasq dovecot dropbear go h2load haproxy ip java jq libelf llvm-strip \
	mariadbd memcached monitoring-plugins mvn nats-server nginx openssl postgres prometheus prometheus-alertmanager prometheus-node-exporter \
	python3 rabbitmq-server redis-server rsyslogd script slapd snmpd snmptrap systemd-journal-remote tcpdump varnishd
SDK_NEEDS := c++ cc chromium cmake doxygen flatbuffers go jansson java libcurl libelf mvn node npm pkg-config postgres python3-venv zlib

# What the tests need is installed beside the first checks, which need little of it.
test:
	@scripts/need cargo cc libelf
	@$(MAKE) needed & needed=$$!; $(MAKE) lint; outcome=$$?; wait $$needed && exit $$outcome
	@for part in test-rust bench-peers-short test-sdk test-ui test-e2e; do $(MAKE) $$part || exit 1; done
	@echo "make test: everything passed"

# In one call of apt, which is a minute less than one for each.
needed:
	@scripts/need cargo $(RUST_NEEDS) $(SDK_NEEDS)

# What is tested has all that packages have. Tests are built with the same features and packages everywhere: otherwise cargo
# builds libraries again for each set of them.
FEATURES := ogive/amqp,ogive/cassandra,ogive/kernel,ogive/lua,ogive-probe/tracing
# Targets of the fuzzer turn on a feature of their own, and are linted.
CRATES := --workspace --exclude ogive-fuzz
CARGO_TEST := cargo test $(CRATES) --locked --features $(FEATURES)
# Everything that a feature adds is checked with all of them at once, and what is there without them once more.
ALL_FEATURES := $(FEATURES),ogive/fastant,ogive-cassandra/cluster-tests
# The crate below all others keeps its feature then, and libraries keep theirs: else everything would be checked twice.
DEEP_FEATURES := ogive-probe/tracing,ogive-tidy/optional-libraries

# They have lock files of their own, which a new dependency of a crate changes too: looked at before anything is built.
OTHER_WORKSPACES := bench/peers bench/record

lint: book
	@scripts/need cargo cc
	cargo fmt --all --check
	@for manifest in Cargo.toml $(OTHER_WORKSPACES:=/Cargo.toml); do \
		cargo metadata --manifest-path $$manifest --format-version 1 --locked >/dev/null || exit 1; done
	@scripts/need libelf
	cargo clippy --workspace --all-targets --features $(ALL_FEATURES) --locked -- -D warnings
	cargo clippy $(CRATES) --all-targets --features $(DEEP_FEATURES) --locked -- -D warnings
	@for workspace in $(OTHER_WORKSPACES); do \
		cargo check --manifest-path $$workspace/Cargo.toml --target-dir target --locked --quiet || exit 1; done
	@if rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1; then \
		cargo clippy -p ogive-probe --target aarch64-unknown-linux-gnu --locked -- -D warnings; \
	else echo "lint: NOT CHECKED on aarch64: rustup target add aarch64-unknown-linux-gnu" >&2; fi
	RUSTDOCFLAGS="-D warnings" cargo doc $(CRATES) --features $(DEEP_FEATURES) --no-deps --locked --quiet

# Nodes of Ogive over a real cluster of three nodes of Cassandra (2.6 GiB): kills, hangs, flipped bytes, the audit. Of it
# CLUSTER_SHORT is part of `make test`.
CLUSTER_SHORT := process:: audit::what tls:: two_clusters::a_process

test-cluster:
	@scripts/need cargo cc iptables java mvn python3
	@scripts/need libelf
	$(CARGO_TEST) --no-run --test system
	OGIVE_BIN=$(CURDIR)/target/debug/ogive $(CARGO_TEST),ogive-cassandra/cluster-tests --test cluster -- \
		--test-threads=1 $(ARGS); outcome=$$?; scripts/cassandra target/cassandra wipe; exit $$outcome

# Three nodes of Cassandra and two of Ogive, at http://127.0.0.1:6448/ and :6449, until a signal comes (4 GiB).
run-cluster: ui
	@scripts/need cargo cc java mvn python3
	cargo build --release --locked -p ogive --features cassandra
	scripts/run-cluster target/release/ogive target/cassandra

test-rust: ui
	@scripts/need $(RUST_NEEDS)
	scripts/clients
	$(CARGO_TEST)
	OGIVE_BIN=$(CURDIR)/target/debug/ogive $(CARGO_TEST),ogive-cassandra/cluster-tests --test cluster -- \
		--test-threads=1 $(CLUSTER_SHORT); outcome=$$?; scripts/cassandra target/cassandra wipe; exit $$outcome

# The histogram SDKs against the vectors (OGIVE_VECTORS_DIR names others) and a real server.
test-sdk: ui
	@scripts/need $(SDK_NEEDS)
	$(CARGO_TEST) --no-run --test system
	sdk/test

# The API reference of each SDK by its language's own tool, into target/sdk/docs. `make test-sdk` makes it too.
sdk-docs:
	@scripts/need cc doxygen go java mvn node npm python3-venv
	sdk/docs

# The wire observer against servers of the JVM, which Maven brings: Kafka, Cassandra, and one of MongoDB's protocol.
test-live-long:
	@scripts/need cargo cc java mvn tcpdump
	OGIVE_LIVE_LONG=1 cargo test --locked -p ogive-wire --test live_jvm --test live_cassandra

# No server, no browser, no client to install: the libraries of the workspace and the page's own tests, without the
# longest tests of the store: its lives that end in crashes, and its limits at their value.
test-quick: ui
	@scripts/need cargo cc
	cargo test --locked $(CRATES) --exclude ogive --exclude ogive-tidy --lib --quiet -- \
		--skip crash_tests --skip limit_tests
	cargo test --locked -p ogive-tidy --quiet
	cd ui && npm test

test-ui: ui
	cd ui && npm test

# Drives the real binary in a real browser.
test-e2e: ui
	@scripts/need chromium libelf nginx redis-server
	$(CARGO_TEST) --no-run --test system
	cd ui && OGIVE_BIN=$(CURDIR)/target/debug/ogive npm run e2e

# Records, merges and quantiles beside six libraries, and message traces beside `tracing`.
bench-record:
	cargo run --release --locked --manifest-path bench/record/Cargo.toml --target-dir target/bench-record
	cargo run --release --locked --manifest-path bench/record/Cargo.toml --target-dir target/bench-record --bin spans

# The same work for Ogive and the current releases of its peers, beside each other: `make bench-peers ARGS='--rounds 1 --scale 0.1'`.
bench-peers: build
	scripts/peers
	cargo run --release --locked --manifest-path bench/peers/Cargo.toml --target-dir target/bench-peers -- $(ARGS)

# Is this state slower than commit (or binary) AGAINST? Minutes; `make bench-guard AGAINST=HEAD~20 ARGS='--rounds 5 --scale 0.2'`.
bench-guard: build
	scripts/guard "$(AGAINST)" $(ARGS)

# The benches beside peers in small, so that they do not rot: every form of every server that is here, and no time is looked at.
SHORT := --peers /usr/bin --peer ogive,prometheus --rounds 1 --repeats 1 --scale 0.01

bench-peers-short: ui
	@scripts/need libelf prometheus
	$(CARGO_TEST) --no-run --test system
	for what in "ingest --work settled,histograms" queries; do \
		cargo run --locked --quiet --manifest-path bench/peers/Cargo.toml --target-dir target -- \
			$$what --ogive target/debug/ogive $(SHORT) || exit 1; done

# The FlatBuffers schema as Rust. The generator is `cargo install planus-cli --version 1.3.0`.
schema:
	@scripts/need planus
	planus rust -o crates/model/src/wire/generated.rs schema/batch.fbs
	sed -i -e 's/, ::serde::Serialize, ::serde::Deserialize//' -e '/^ *::serde::[A-Z][a-z]*,$$/d' -e '/^ *#\[serde[^]]*\]$$/d' crates/model/src/wire/generated.rs

clean:
	cargo clean
	rm -rf ui/dist ui/node_modules
