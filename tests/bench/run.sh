#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds what is missing and prints what memtap costs on this machine: one Markdown table.
#
#   tests/bench/run.sh [--quick] [PART...]     as root
#
# Parts: probe attach memory loader record loss host real ops names stacks tables offline writer; all but the writer without any.
# BUILD names the build folder (default: build in the source tree).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
build=${BUILD:-$top/build}
if [ ! -f "$build/build.ninja" ]; then
	meson setup "$build" "$top" >&2
fi
ninja -C "$build" >&2
exec python3 "$here/bench.py" --build "$build" "$@"
