#!/bin/sh
# Checks that programs have the protections of the compiler and linker, and that the systemd units
# are valid and restricted.
. "$(dirname "$0")/lib.sh"
need readelf objdump
commands=$build/compile_commands.json

# Other build types (sanitizers, debug) have other protections.
if grep -q -e '-fsanitize=' "$commands" || ! grep -q -e ' -O[123s]' "$commands"; then
    echo "not an optimized build: only the units are checked"
else
    grep -q -e '-D_FORTIFY_SOURCE=3' "$commands" || fail "not compiled with _FORTIFY_SOURCE=3"
    case $(uname -m) in
    x86_64)
        grep -q -e '-fcf-protection' "$commands" || fail "not compiled with -fcf-protection"
        [ "$(objdump -d "$intent_api" | grep -c endbr64)" -gt 50 ] || fail "functions do not begin with endbr64"
        ;;
    esac
    grep -q -e '-fstack-clash-protection' "$commands" || fail "not compiled with -fstack-clash-protection"
    for file in "$gpuscale" "$intent_api" "$build/src/simulation/nvmlsim/libgpuscale-nvmlsim.so" "$build/src/simulation/dcgmsim/libgpuscale-dcgmsim.so" "$build/src/local/libgpuscale-podnet.so"; do
        readelf -hW "$file" | grep -q 'Type:.*DYN' || fail "$file: not position independent"
        readelf -lW "$file" | grep -q GNU_RELRO || fail "$file: no RELRO"
        readelf -lW "$file" | grep 'GNU_STACK' | grep -q 'RW  ' || fail "$file: the stack is executable"
        readelf -dW "$file" | grep -q BIND_NOW || fail "$file: symbols are bound late"
        readelf --dyn-syms -W "$file" | grep -q '__stack_chk_fail' || fail "$file: no stack protector"
        echo "ok: ${file##*/}"
    done
fi

for verb in engine adapter hpa exporter; do
    unit=$source/deploy/systemd/gpuscale-$verb.service.in
    # Flags in ExecStart must exist.
    flags=$(awk '/^ExecStart=/ { on = 1 } on { more = sub(/\\$/, ""); printf "%s ", $0; on = more }' "$unit" | sed "s/^.*gpuscale $verb//; s/\$GPUSCALE_FLAGS//; s#%d#$dir#g")
    # shellcheck disable=SC2086 # words
    "$gpuscale" "$verb" $flags --help >"$dir/help" 2>&1 || { cat "$dir/help"; fail "$unit: flags"; }
done
command -v systemd-analyze >/dev/null || skip "the units of systemd: systemd-analyze is not installed"
for verb in engine adapter hpa exporter; do
    unit=$dir/gpuscale-$verb.service
    sed 's#@bindir@/gpuscale#/bin/true#' "$source/deploy/systemd/gpuscale-$verb.service.in" >"$unit"
    systemd-analyze verify --man=no "$unit" 2>&1 | grep "gpuscale-$verb" && fail "$unit"
    systemd-analyze security --offline=yes --threshold=25 "$unit" >"$dir/security" 2>&1 ||
        { cat "$dir/security"; fail "$unit: exposure above 2.5"; }
    echo "ok: $(tail -n 1 "$dir/security")"
done
