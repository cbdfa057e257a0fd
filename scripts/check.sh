#!/usr/bin/env bash
# Everything that scripts/test.sh runs, and ThreadSanitizer, clang-format, clang-tidy, self-contained
# headers and 60 seconds of each fuzz target (FUZZ_SECONDS changes that). Takes an hour or more.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

install_packages build test check
mapfile -t sources < <(git ls-files 'difflet/*.cc' 'difflet/*.h' 'apps/*.cc' 'fuzz/*.cc' 'bench/*.cc' 'bench/*.h' 'tests/*.cc' 'tests/*.h')

say "clang-format"
clang-format-19 --dry-run --Werror "${sources[@]}"

say "clang-tidy"
output=$(cmake --preset tidy 2>&1) || { printf '%s\n' "$output" >&2; die "cmake --preset tidy failed"; }
tools/tidy build/tidy || die "clang-tidy has findings"

build release all all_verify_interface_header_sets

say "fuzzing"
build fuzz
shopt -s nullglob
targets=(build/fuzz/fuzz/fuzz_*[a-z])
[ ${#targets[@]} -gt 0 ] || die "no fuzz target was built"
fuzz() {
  local name output
  name=$(basename "$1")
  mkdir -p "build/fuzz/corpus/$name"
  output=$("$1" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 \
    -print_final_stats=0 -verbosity=0 "build/fuzz/corpus/$name" \
    $( [ -d "fuzz/corpus/$name" ] && echo "fuzz/corpus/$name" ) 2>&1) ||
    { printf '%s\n' "$output" >&2; die "$name found something"; }
  echo "$name: nothing found"
}
export -f fuzz die
printf '%s\0' "${targets[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c 'fuzz "$1"' check.sh

build tsan
say "testing under ThreadSanitizer"
# gcc 12's runtime needs the classic address layout.
export TSAN_OPTIONS=suppressions=$PWD/tools/sanitizers/tsan.supp:halt_on_error=1
setarch "$(uname -m)" --addr-no-randomize \
  ctest --test-dir build/tsan --parallel "$(nproc)" --no-tests=error --output-on-failure --no-label-summary

exec scripts/test.sh
