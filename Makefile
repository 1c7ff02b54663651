# Weir's tasks. `make help` lists them.

PREFIX ?= /usr/local
DESTDIR ?=
export PATH := $(HOME)/.cargo/bin:$(PATH)

# `make install PROFILED=1` installs what `make profiled` builds.
weir := $(if $(PROFILED),target/profiled/weir,target/release/weir)

# What `install` makes and `uninstall` removes.
installed = $(DESTDIR)$(PREFIX)/bin/weir
bash = $(DESTDIR)$(PREFIX)/share/bash-completion/completions/weir
zsh = $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_weir
fish = $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/weir.fish

.DEFAULT_GOAL := help
.PHONY: help deps build profiled test run demo lint layers panics sanitize memcheck dpdk-versions install uninstall clean

help: ## Lists the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps: ## Installs the Debian packages that are missing; says how to get Rust
	@tools/deps.sh

build: ## Builds the release program, target/release/weir
	cargo build --release --locked --bin weir

profiled: ## Builds target/profiled/weir, laid out by what its benchmarks do here (15 minutes)
	@tools/profiled.sh

test: ## Runs every tier of tests; the last line sums them up
	@tools/test.sh

run: deps build ## Routes real traffic between two network namespaces (needs root)
	@scenarios/run.sh

demo: deps build ## Routes a capture file: no root, huge pages or NIC
	@scenarios/demo.sh

lint: ## Checks format, lints, imports, unsafe code and panics
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	@$(MAKE) --no-print-directory layers panics

layers: ## Checks who imports whom, and where unsafe code may be
	cargo run --quiet --locked -p weir-layers

panics: ## Checks that stages and tables cannot panic
	cargo run --quiet --locked -p weir-panic-check

sanitize: ## Runs the tests of buffers under the address sanitizer (needs a nightly)
	@tools/sanitize.sh

memcheck: ## Runs the tests of scripts under valgrind
	@tools/memcheck.sh

dpdk-versions: ## Builds and runs Weir with other versions of DPDK (needs root, mmdebstrap and their mirrors)
	@tools/dpdk-versions.sh

# The program that is built keeps its line tables, for profilers and for the checks that read its code. They are most of its size: the one
# that is installed keeps the names of functions only, so that a backtrace still says where.
install: $(if $(PROFILED),profiled,build) ## Installs weir and its shell completion under PREFIX
	install -D -m 755 $(weir) $(installed)
	strip --strip-debug $(installed)
	$(weir) completion bash | install -D -m 644 /dev/stdin $(bash)
	$(weir) completion zsh | install -D -m 644 /dev/stdin $(zsh)
	$(weir) completion fish | install -D -m 644 /dev/stdin $(fish)

uninstall: ## Removes what install put there, and nothing else
	rm -f $(installed) $(bash) $(zsh) $(fish)

clean: ## Removes what was built
	cargo clean
