#!/usr/bin/env bash
# Builds and runs every test: all of them in release, and the unit, conformance and command line
# tests once more with AddressSanitizer and UndefinedBehaviorSanitizer. ctest's summary comes last.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

install_packages build test
say "layers"
tools/check_layers
build release
build asan

say "testing"
export UBSAN_OPTIONS=print_stacktrace=1 ASAN_OPTIONS=detect_stack_use_after_return=1
export LSAN_OPTIONS=suppressions=$PWD/tools/sanitizers/lsan.supp:print_suppressions=0
# One run over both builds, so that its summary counts everything.
mkdir -p build/all
printf 'subdirs("%s/build/release" "%s/build/asan")\n' "$PWD" "$PWD" >build/all/CTestTestfile.cmake
exec ctest --test-dir build/all --parallel "$(nproc)" --no-tests=error --output-on-failure \
  --no-label-summary "$@"
