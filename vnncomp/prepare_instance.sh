#!/bin/bash
# VNN-COMP: prepare_instance.sh v1 CATEGORY ONNX VNNLIB. Nothing to prepare: ends what an earlier
# instance may have left, and fails (which skips the instance) only when a file is not there.
if [ "${1:-}" != v1 ] || [ $# -lt 4 ]; then
  echo "usage: prepare_instance.sh v1 CATEGORY ONNX VNNLIB" >&2
  exit 1
fi
pkill -KILL -f 'grapeshot falsify' 2>/dev/null
for file in "$3" "$4"; do
  if [ ! -r "$file" ] && [ ! -r "$file.gz" ]; then
    echo "prepare_instance.sh: $file: no such file" >&2
    exit 1
  fi
done
exit 0
