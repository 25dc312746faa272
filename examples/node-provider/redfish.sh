#!/bin/sh
# Switches servers on and off by Redfish, with curl and jq. The servers are the `hosts` of a pool. Each has a kubelet that
# starts with the system, with the host name as the name of its Node and --provider-id=gpuscale://POOL/NAME.
#
#   REDFISH_SYSTEMS   a file with a line for each server: NAME https://BMC/redfish/v1/Systems/ID
#   REDFISH_NETRC     a file with user names and passwords of the BMCs, in the format of .netrc
#   REDFISH_CA        the CA of the BMCs' certificates (default: the CAs of the system)
#   SHUTDOWN_SECONDS  time for an orderly shutdown before the power is cut (default: 180)
set -eu
systems=${REDFISH_SYSTEMS:-systems.txt}

redfish() { # URL [CURL-OPTION]...
    curl --silent --show-error --fail --max-time 20 --retry 2 --netrc-file "${REDFISH_NETRC:-netrc}" \
        ${REDFISH_CA:+--cacert "$REDFISH_CA"} "$@"
}

url() { # NAME
    awk -v name="$1" '$1 == name { print $2; found = 1 } END { exit !found }' "$systems" ||
        { echo "$systems has no line for $1" >&2 && exit 1; }
}

power() { # NAME: On, Off, PoweringOn, PoweringOff
    system=$(url "$1")
    redfish "$system" | jq -er .PowerState || { echo "$1: $system has no power state" >&2 && exit 1; }
}

reset() { # NAME TYPE
    system=$(url "$1")
    redfish --request POST --header 'Content-Type: application/json' --data "{\"ResetType\": \"$2\"}" \
        "$system/Actions/ComputerSystem.Reset" >&2
}

wait_for() { # NAME STATE SECONDS
    left=$3
    while [ "$(power "$1")" != "$2" ]; do
        left=$((left - 5))
        [ "$left" -gt 0 ] || return 1
        sleep 5
    done
}

case $GPUSCALE_ACTION in
create)
    [ "$(power "$GPUSCALE_NAME")" = On ] || reset "$GPUSCALE_NAME" On
    wait_for "$GPUSCALE_NAME" On 60
    ;;
delete)
    [ "$(power "$GPUSCALE_NAME")" != Off ] || exit 0
    reset "$GPUSCALE_NAME" GracefulShutdown || echo "no orderly shutdown" >&2
    if ! wait_for "$GPUSCALE_NAME" Off "${SHUTDOWN_SECONDS:-180}"; then
        reset "$GPUSCALE_NAME" ForceOff
        wait_for "$GPUSCALE_NAME" Off 60
    fi
    ;;
list)
    # If one server does not answer, the list fails as a whole: its state is unknown.
    for name in $GPUSCALE_HOSTS; do
        state=$(power "$name")
        case $state in
        On) echo "$name running" ;;
        PoweringOn) echo "$name creating" ;;
        PoweringOff) echo "$name deleting" ;;
        esac
    done
    ;;
esac
