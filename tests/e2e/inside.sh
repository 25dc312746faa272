# Runs the script that sources this file in its own namespaces (network, mounts, pids), so that pods have addresses and
# directories, and nothing remains. Exit code 3: they cannot be created.
if [ -z "${GPUSCALE_E2E_INSIDE:-}" ]; then
    export GPUSCALE_E2E_INSIDE=1
    [ "$(id -u)" = 0 ] || as_root="--map-root-user --map-auto"
    # shellcheck disable=SC2086
    command -v ip >/dev/null || { echo "e2e: skipped: ${0##*/}: no ip command (iproute2)"; exit 3; }
    if ! unshare ${as_root:-} -nmpf --mount-proc true 2>/dev/null; then
        echo "e2e: skipped: ${0##*/}: no namespaces of one's own may be made here (unshare -nmpf)"
        exit 3
    fi
    # unshare ignores SIGTERM; when it is gone the kernel ends all of its pid namespace.
    # shellcheck disable=SC2086
    unshare ${as_root:-} -nmpf --kill-child --mount-proc --propagation private "$0" "$@" &
    [ -z "${HOLD:-}" ] || echo "e2e: enter with: nsenter -t \$(pgrep -P $!) -n -m -p sh"
    trap 'kill -9 $! 2>/dev/null' EXIT
    trap 'exit 130' INT TERM
    wait $! || exit $?
    exit 0
fi
