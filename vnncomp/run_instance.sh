#!/bin/bash
# VNN-COMP: run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT. Writes sat with a
# counterexample, or unknown, timeout or error, to RESULTS. Always ends with status 0.
if [ "${1:-}" != v1 ] || [ $# -lt 6 ]; then
  echo "usage: run_instance.sh v1 CATEGORY ONNX VNNLIB RESULTS TIMEOUT" >&2
  exit 0
fi
onnx=$3 vnnlib=$4 results=$5 timeout=$6
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
program=${GRAPESHOT:-$here/../build/release/grapeshot}
witness=$(mktemp) || { echo error > "$results"; exit 0; }
trap 'rm -f "$witness" "$witness.nan.npy"' EXIT
# The answer has to be written before the clock of the competition stops.
limit=$(awk -v t="$timeout" 'BEGIN { printf "%.2f", (t > 2 ? t - 0.5 : 0.75 * t) }')
answer=$("$program" falsify "$onnx" "$vnnlib" --timeout "$limit" --witness "$witness" --quiet | head -n 1)
case $answer in
  sat) cat "$witness" > "$results" ;;
  unknown | timeout) echo "$answer" > "$results" ;;
  *) echo error > "$results" ;;
esac
exit 0
