#!/bin/sh
# Runs Prometheus' own test scripts of PromQL, read from its Go module, against src/series/promql, and prints
# the numbers of statements that pass, without and with the feature promql-delayed-name-removal. Each
# plain statement must pass, except those in promqltest-exceptions.txt.
# The line numbers of the exceptions are those of this version.
GPUSCALE_PROMETHEUS3_VERSION=v3.16.0
export GPUSCALE_PROMETHEUS3_VERSION
set -eu
build=${GPUSCALE_BUILD_ROOT:?} here=${GPUSCALE_SOURCE_ROOT:?}/tests/differential
files=$("$here/prometheus3.sh" --source) || { echo "skipped: the source of Prometheus cannot be downloaded"; exit 77; }
for mode in "" -d; do
	# shellcheck disable=SC2086
	"$build/tests/differential/promqltest" $mode "$here/promqltest-exceptions.txt" "$files"/promql/promqltest/testdata/*.test
done
