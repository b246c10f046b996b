#!/bin/bash
# VNN-COMP: install_tool.sh v1. Builds grapeshot with everything it needs (Debian or Ubuntu).
set -euo pipefail
if [ "${1:-}" != v1 ]; then
  echo "usage: install_tool.sh v1" >&2
  exit 1
fi
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec ./dev build
