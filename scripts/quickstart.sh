#!/usr/bin/env bash
# From a fresh machine to a picture: installs missing packages, builds build/release, draws apple.png.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

picture=${1:-apple.png}
install_packages build
build release difflet_app
say "drawing"
build/release/difflet generate --model demo --prompt "a red apple" --output "$picture"
echo "The picture: $(realpath "$picture")"
