# The front door. The build itself is Meson. Every target installs the Debian packages that it needs and builds what it needs.
BUILD   ?= build
ASAN    ?= build-asan
TSAN    ?= build-tsan
FUZZ    ?= build-fuzz
PREFIX  ?= /usr/local
SECONDS_PER_TARGET ?= 60
RUN_FLAGS ?=
# Arguments of tools/run-tests and of tools/lint.
TEST_FLAGS ?=
LINT_FLAGS ?=
NATIVE   = $(shell dpkg --print-architecture)
ARCH    ?= $(NATIVE)

.PHONY: help build run test tests everything peers peers-quick test-asan test-tsan e2e lint layers fmt fmt-check hardware bench fuzz check-all install uninstall image dist site clean
.DEFAULT_GOAL := help

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

build: ## Compile gpuscale, the simulated GPU library and the example service into build/; install kubectl and hey
	@tools/install-deps build
	@tools/install-deps run || echo "The tour of README.md needs these packages; compiling does not."
	@tools/build $(BUILD) program

run: ## Watch a GPU service and nodes scale on this machine (about five minutes, then Ctrl-C)
	@tools/install-deps build run
	@tools/build $(BUILD) program
	@examples/demo/run $(BUILD) $(RUN_FLAGS)

test: ## Run all tests that need only Debian packages
	@tools/install-deps build test peers
	@tools/build --tests $(BUILD) program meson-test-prereq
	@tools/run-tests $(BUILD) $(TEST_FLAGS)

tests: test ## The same as make test

peers: peers-quick ## Build the systems that tests compare with, once, from Go modules and PyPI (half an hour; without a registry they are left out)
	@tests/differential/go_programs.sh victoriametrics || [ $$? = 3 ]
	@tests/differential/go_programs.sh thanos || [ $$? = 3 ]
	@tests/e2e/keda-build.sh || [ $$? = 3 ]
	@tests/e2e/keda-build.sh differential || [ $$? = 3 ]

peers-quick: ## Those of them that take ten minutes in all
	@tests/differential/prometheus3.sh || [ $$? = 3 ]
	@tests/differential/prometheus3.sh --source || [ $$? = 3 ]
	@tests/differential/prometheus_adapter.sh || [ $$? = 3 ]
	@tests/differential/python_venv.sh kubernetes || [ $$? = 3 ]
	@tests/differential/python_venv.sh nvml || [ $$? = 3 ]
	@tests/differential/python_venv.sh scaling || [ $$? = 3 ]
	@tests/differential/knative.sh || [ $$? = 3 ]
	@tests/differential/terraform_providers.sh || [ $$? = 3 ]
	@tests/e2e/helm.sh || [ $$? = 3 ]
	@tests/e2e/schemas.sh || [ $$? = 3 ]

everything: ## Compile all programs: those of the tests, fuzz replays and benchmarks too
	@tools/install-deps build test
	@tools/build --tests $(BUILD) all

test-asan: ## The same tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/install-deps build test peers
	@tools/build --tests $(ASAN) -Doptimization=1 -Db_sanitize=address,undefined -Db_lundef=false meson-test-prereq
	@tools/run-tests $(ASAN) $(TEST_FLAGS)

# The modules that have threads. The sanitizer needs memory in known places, hence setarch.
test-tsan: ## The tests of modules with threads, under ThreadSanitizer
	@tools/install-deps build test
	@tools/build --tests $(TSAN) -Doptimization=1 -Db_sanitize=thread -Db_lundef=false program
	@TSAN_OPTIONS="exitcode=66 suppressions='$(CURDIR)/tests/tsan.supp'" setarch -R tools/run-tests $(TSAN) -t 4 \
		--suite gpu --suite dcgm_source --suite nvmlsim --suite dcgmsim --suite exporter --suite net --suite tsdb \
		--suite replay --suite inference

e2e: ## Test against a real Kubernetes control plane (built once, from Go modules, in about 12 minutes)
	@tools/install-deps build e2e
	@tools/build $(BUILD) program bench/workload
	@tests/e2e/all.sh

layers: ## Check includes, names, the table of modules and what pages name, and that each source has a test and a feature
	@tools/check-layers
	@tools/check-tests
	@tools/check-names
	@tools/feature-lines

lint: ## Run cppcheck and clang-tidy on src/ (an unchanged file without findings is not checked again)
	@tools/install-deps build lint
	@tools/build $(BUILD) program
	@tools/lint $(LINT_FLAGS) $(BUILD)

fmt: ## Format all C sources in place (clang-format 14)
	@tools/install-deps fmt
	@tools/fmt

fmt-check: ## Fail when a source is not formatted (clang-format 14)
	@tools/install-deps fmt
	@tools/fmt --check

hardware: ## Test on the NVIDIA GPUs of this machine and write a report (under 10 minutes)
	@tools/install-deps build test hardware
	@tools/build --tests $(BUILD) program hardware-programs
	@tests/hardware/run $(BUILD)

bench: ## Measure reaction time, CPU and memory
	@tools/install-deps build bench
	@tools/build $(BUILD) program bench-programs
	@bench/run $(BUILD)

fuzz: ## Run every fuzz target on its corpus, then fuzz for SECONDS_PER_TARGET (60)
	@tools/install-deps build fuzz
	@CC=clang tools/build $(FUZZ) -Doptimization=1 -Dfuzz=true -Db_sanitize=address,undefined -Db_lundef=false all
	@fuzz/run $(FUZZ) $(SECONDS_PER_TARGET)

check-all: ## Run .ci/run with its slow parts: all tests as a second user, on a slow machine and with sanitizers, fuzzing, packages in clean systems
	@.ci/run --all

install: build ## Install programs, units, manual pages and completion into PREFIX (/usr/local), DESTDIR honoured
	@meson configure $(BUILD) --prefix "$(PREFIX)"
	@tools/build $(BUILD) program install-files
	@meson install -C $(BUILD) --no-rebuild --strip
	@echo "Installed. make uninstall removes the files that $(BUILD)/meson-logs/install-log.txt lists."

uninstall: ## Remove what make install has installed (the same PREFIX and DESTDIR)
	@ninja -C $(BUILD) uninstall

image: ## Make the container images into image/, for clusters and complete (both architectures: ARCH="amd64 arm64")
	@tools/install-deps build image $(filter arm64,$(filter-out $(NATIVE),$(ARCH)))
	@tools/image --arch "$(ARCH)" $(BUILD)

dist: ## Make the files of a release from the last commit into dist/: tarball, bill of materials, chart, checksums
	@tools/install-deps dist
	@tools/dist

site: ## Build the documentation as static HTML with search into build-site/
	@tools/install-deps site
	@tools/site

.PHONY: deb
deb: ## Build the Debian packages for this release of Debian into $(BUILD)/packages, and check them with lintian
	@tools/install-deps build deb
	@nice -n 5 tools/deb "$(BUILD)/packages"

.PHONY: rpm
rpm: ## Build the RPM packages from the last commit into $(BUILD)/packages-rpm, and check them with rpmlint
	@tools/install-deps build rpm
	@nice -n 5 tools/rpm "$(BUILD)/packages-rpm"

clean: ## Remove all build folders: every folder of the project that Meson has configured
	@for folder in */meson-private; do [ ! -d "$$folder" ] || rm -rf "$${folder%/meson-private}" "$${folder%/meson-private}.log"; done
	@rm -rf $(BUILD) $(ASAN) $(TSAN) $(FUZZ) build-site
