#!/bin/sh
# Installs a set of packages of PyPI into a virtual environment in the cache directory, once per list of versions. Prints
# the path of its Python.
# Usage: python_venv.sh [--no-build] SET
#   --no-build  prints the path only if the environment exists. Tests in a network namespace of their own cannot download.
# Exit code 3: Python cannot create virtual environments, or the packages cannot be downloaded; the reason is on stderr.
set -eu
build=yes
if [ "${1:-}" = --no-build ]; then
    build=
    shift
fi
case ${1:-} in
kubernetes) set -- kubernetes==37.0.2 kubernetes_asyncio==36.1.0 kr8s==0.20.15 lightkube==1.0.1 ;;
# nvidia-ml-py of the version of the simulated driver.
nvml) set -- nvidia-ml-py==12.570.86 gpustat==1.1.1 nvitop==1.7.2 ;;
# Scaling policies that bench/inference runs. Later releases of Dynamo need a package that PyPI does not have.
scaling) set -- "ray[serve]==2.60.0" ai-dynamo==1.4.2 scikit-learn==1.9.1 ;;
# HTTP/2 for bench/zero.
http2) set -- h2==4.3.0 ;;
*) echo "usage: python_venv.sh [--no-build] kubernetes|nvml|scaling|http2" >&2; exit 2 ;;
esac
command -v python3 >/dev/null || { echo "python_venv: no python3 on PATH" >&2; exit 3; }
# The packages depend on the version of Python, too.
name=$({ python3 --version; printf '%s\n' "$@" | sort; } | cksum | cut -d ' ' -f 1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gpuscale/python/$name
if [ ! -e "$cache/complete" ]; then
    [ "$build" ] || { echo "python_venv: $* is not installed (make peers)" >&2; exit 3; }
    mkdir -p "${cache%/*}"
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # An environment contains its path, so it is created in its place. Another process that does the same waits.
    exec 9>"$cache.lock"
    flock 9
    if [ ! -e "$cache/complete" ]; then
        rm -rf "$cache"
        python3 -m venv "$cache" >"$log" 2>&1 ||
            { tail -n 3 "$log" >&2; echo "python_venv: no virtual environment can be created (python3-venv)" >&2; exit 3; }
        nice -n 10 "$cache/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >"$log" 2>&1 ||
            { tail -n 3 "$log" >&2; echo "python_venv: $* cannot be downloaded" >&2; exit 3; }
        : >"$cache/complete"
    fi
fi
echo "$cache/bin/python"
