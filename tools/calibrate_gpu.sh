#!/usr/bin/env bash
# Measures the GPU of this host for the cost models, within 8 minutes all told:
#
#   tools/calibrate_gpu.sh [FOLDER]        (FOLDER: calibration)
#
# Needs python3 (3.11 or later) with torch, triton and numpy, and a C compiler, which Triton calls;
# no network, and nothing is installed.
# PYTHON=... names another interpreter, LIMIT_S=... another limit, PLAN=... another plan than auto.
# Leaves FOLDER/rows.jsonl, FOLDER/log.txt and FOLDER/table.txt; run again, it measures what is left.
# Exit codes: 0 done or out of time, 1 nothing could be measured, 2 a mistake, 130 interrupted.
set -uo pipefail
begun=$SECONDS
folder=${1:-calibration}
limit_s=${LIMIT_S:-480}
python=${PYTHON:-python3}
reserve_s=30 # for the end of the last case and the table

fail() {
  echo "calibrate_gpu: error: $1" >&2
  exit 2
}

[ $# -le 1 ] || fail "one folder at most, found $# arguments"
case $limit_s in
'' | *[!0-9]*) fail "LIMIT_S must be a whole number of seconds, found '$limit_s'" ;;
esac
[ "$limit_s" -ge 60 ] || fail "LIMIT_S must be at least 60, found $limit_s"
command -v "$python" >/dev/null || fail "no $python here; name one with PYTHON=..."
command -v timeout >/dev/null || fail "no timeout command here (GNU coreutils)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "$python must be Python 3.11 or later, found $("$python" --version 2>&1)"
for package in torch triton numpy; do
  "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$package') is None)" ||
    fail "$python has no $package"
done
command -v "${CC:-gcc}" >/dev/null || command -v clang >/dev/null ||
  fail "Triton needs a C compiler: no ${CC:-gcc} and no clang here"
mkdir -p "$folder" 2>/dev/null && [ -w "$folder" ] || fail "cannot write into $folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")/.." || exit 2

left_s=$((limit_s - reserve_s - (SECONDS - begun)))
timeout --signal=TERM --kill-after=10 "$((left_s + reserve_s - 10))" \
  "$python" -m hwmodels.microbench --out "$folder/rows.jsonl" --budget-s "$left_s" \
  --plan "${PLAN:-auto}" 2>&1 | tee "$folder/log.txt"
code=${PIPESTATUS[0]}
grep -v '^\[' "$folder/log.txt" >"$folder/table.txt"
if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
  echo "calibrate_gpu: stopped after $((SECONDS - begun)) s; rows are kept in $folder/rows.jsonl" >&2
  exit 130
fi
[ "$code" -ne 0 ] || echo "rows, log and table in $folder ($((SECONDS - begun)) s)"
exit "$code"
