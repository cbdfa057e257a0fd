# Shared by the scripts in this folder; sourced from the source folder.
# shellcheck shell=bash

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }

# packages_of SECTION...: the packages of those sections of packages/apt.txt, one a line.
packages_of() {
  awk -v wanted=" $* " '
    /^# \[/ { match($0, /\[[a-z]+\]/); on = index(wanted, " " substr($0, RSTART + 1, RLENGTH - 2) " ") }
    on && !/^#/ && NF { print $1 }' packages/apt.txt
}

missing_packages() {
  local package
  for package in $(packages_of "$@"); do
    dpkg-query -W -f='${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed ||
      printf '%s\n' "$package"
  done
}

# install_packages SECTION...: installs what is missing; asks for nothing when nothing is.
install_packages() {
  local missing as_root=()
  command -v dpkg-query >/dev/null ||
    die "this system has no apt: install what packages/apt.txt names and build as CONTRIBUTING.md says"
  mapfile -t missing < <(missing_packages "$@")
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || die "packages are missing, and there is neither root nor sudo. As root:
  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || die "apt-get update failed"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null ||
    die "apt-get could not install ${missing[*]}"
}

# build PRESET [TARGET...]
build() {
  local preset=$1 output
  shift
  say "building $preset"
  output=$(cmake --preset "$preset" 2>&1) || { printf '%s\n' "$output" >&2; die "cmake --preset $preset failed"; }
  cmake --build "build/$preset" --parallel "$(nproc)" ${1:+--target "$@"} ||
    die "the $preset build failed"
}
