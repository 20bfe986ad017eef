#!/usr/bin/env bash
# Chromium and Node from the system's packages where they are missing; the two npm packages beside this file.
set -euo pipefail
cd "$(dirname "$0")"

have() { command -v "$1" > /dev/null 2>&1; }
missing=()
have chromium || have chromium-browser || have google-chrome || [ -n "${CHROMIUM:-}" ] || missing+=(chromium)
have node || missing+=(nodejs)
have npm || missing+=(npm)
if [ ${#missing[@]} -gt 0 ]; then
  have apt-get || { echo "please install: ${missing[*]}" >&2; exit 1; }
  as_root=""
  [ "$(id -u)" -eq 0 ] || as_root="sudo"
  echo "installing ${missing[*]} from the system's packages"
  $as_root apt-get update -qq
  $as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi
if [ ! -d node_modules ] || [ package-lock.json -nt node_modules ]; then
  npm ci --no-audit --no-fund --loglevel=error
  touch node_modules
fi
