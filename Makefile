# The front door. The build itself is Meson; every target installs the Debian packages that it needs.
BUILD   ?= build
ASAN    ?= build-asan
TSAN    ?= build-tsan
FUZZ    ?= build-fuzz
PREFIX  ?= /usr/local
SECONDS_PER_TARGET ?= 60
RUN_FLAGS ?=

.PHONY: help build run test test-asan test-tsan e2e lint layers fmt fmt-check bench fuzz install clean
.DEFAULT_GOAL := help

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

$(BUILD)/build.ninja:
	@tools/install-deps build test
	@meson setup $(BUILD) >$(BUILD).log 2>&1 || { cat $(BUILD).log; exit 1; }
	@rm -f $(BUILD).log

build: ## Compile everything into build/
	@tools/install-deps build test
	@$(MAKE) --no-print-directory $(BUILD)/build.ninja
	@ninja -C $(BUILD)

run: build ## See a GPU service scale on this machine (about four minutes, then Ctrl-C)
	@tools/install-deps run
	@examples/demo/run $(BUILD) $(RUN_FLAGS)

test: build ## Run all tests that need only Debian packages
	@tools/install-deps test peers
	@tools/run-tests $(BUILD)

$(ASAN)/build.ninja:
	@meson setup $(ASAN) -Db_sanitize=address,undefined -Db_lundef=false >$(ASAN).log 2>&1 || { cat $(ASAN).log; exit 1; }
	@rm -f $(ASAN).log

test-asan: ## The same tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/install-deps build test peers
	@$(MAKE) --no-print-directory $(ASAN)/build.ninja
	@ninja -C $(ASAN)
	@tools/run-tests $(ASAN)

$(TSAN)/build.ninja:
	@meson setup $(TSAN) -Db_sanitize=thread -Db_lundef=false >$(TSAN).log 2>&1 || { cat $(TSAN).log; exit 1; }
	@rm -f $(TSAN).log

# The rooms that have threads. The sanitizer needs memory in known places, hence setarch.
test-tsan: ## The tests of what has threads, under ThreadSanitizer
	@tools/install-deps build test
	@$(MAKE) --no-print-directory $(TSAN)/build.ninja
	@ninja -C $(TSAN)
	@TSAN_OPTIONS=exitcode=66 setarch -R tools/run-tests $(TSAN) -t 4 \
		--suite gpu --suite nvmlsim --suite exporter --suite net --suite tsdb

e2e: build ## Test against a real Kubernetes control plane (built once, from Go modules, in about 12 minutes)
	@tools/install-deps e2e
	@tests/e2e/all.sh

layers: ## Check that no room includes a room that it may not, and that no two files define the same function
	@tools/check-layers

lint: build ## cppcheck and clang-tidy
	@tools/install-deps lint
	@tools/lint $(BUILD)

fmt: ## Format all C sources in place (clang-format 14)
	@tools/install-deps fmt
	@tools/fmt

fmt-check: ## Fail when a source is not formatted (clang-format 14)
	@tools/install-deps fmt
	@tools/fmt --check

bench: build ## Measure reaction time, CPU and memory
	@tools/install-deps bench
	@bench/run $(BUILD)

fuzz: ## Fuzz every parser of outside bytes for SECONDS_PER_TARGET (60)
	@tools/install-deps build fuzz
	@[ -f $(FUZZ)/build.ninja ] || CC=clang meson setup $(FUZZ) -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false >/dev/null
	@ninja -C $(FUZZ)
	@fuzz/run $(FUZZ) $(SECONDS_PER_TARGET)

install: build ## Install into PREFIX (/usr/local), DESTDIR honoured
	@meson configure $(BUILD) --prefix $(PREFIX)
	@meson install -C $(BUILD)

clean: ## Remove all build folders
	@rm -rf $(BUILD) $(ASAN) $(FUZZ)
