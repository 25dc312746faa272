#!/bin/sh
# What `make install` installs: it works where it lies, its manual pages have no errors, the shells
# complete with it, and uninstalling leaves no file.
. "$(dirname "$0")/lib.sh"

root=$dir/root
meson install -C "$build" --no-rebuild --destdir "$root" >"$dir/install.txt" 2>&1 || { cat "$dir/install.txt" && fail "meson install"; }
prefix=$root$(sed -n 's/^Installing .* to \(.*\)\/bin$/\1/p' "$dir/install.txt" | head -n 1 | sed "s|^$root||")
[ -x "$prefix/bin/gpuscale" ] || fail "no program in $prefix/bin"

# The simulated GPUs and the other libraries are found from the installed place.
"$prefix/bin/gpuscale" exporter --simulate=2xTesla-T4 --address=127.0.0.1:0 >"$dir/exporter.log" 2>&1 &
pids=$!
listening() { address=$(sed -n "s,.*exporter: http://\(127\.0\.0\.1:[0-9]*\)/metrics.*,\1,p" "$dir/exporter.log") && [ -n "$address" ]; }
wait_for "the exporter listens" listening
metrics() { curl -s "http://$address/metrics" | grep -q "^DCGM_FI_DEV_GPU_TEMP.*Tesla T4"; }
wait_for "metrics of simulated GPUs" metrics

# --- units and documents ---
for unit in exporter adapter engine expander hpa node-provider; do
    grep -q "^ExecStart=/.*/bin/gpuscale $unit" "$prefix/lib/systemd/system/gpuscale-$unit.service" || fail "unit of $unit"
done
[ -s "$prefix/share/doc/gpuscale/LICENSE" ] || fail "no license"
for file in default-counters 1.x-compatibility-metrics; do
    grep -q "^[A-Za-z_]*, gauge, " "$prefix/share/gpuscale/counters/$file.csv" || fail "no counters file $file.csv"
done
cmp "$prefix/share/gpuscale/inference-engines.yaml" "$source/share/inference-engines.yaml" || fail "no table of inference engines"

# --- manual pages ---
for page in "$prefix"/share/man/man1/*.1 "$prefix"/share/man/man5/*.5; do
    name=$(basename "$page")
    if command -v groff >/dev/null 2>&1; then
        groff -Kutf8 -man -Tutf8 -ww "$page" >"$dir/page.txt" 2>"$dir/page.err" || fail "groff fails for $name"
        ! grep -v "can't break line\|cannot adjust line\|cannot break line" "$dir/page.err" || fail "$name has errors"
    fi
done
"$gpuscale" --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p' | while read -r command; do
    [ -s "$prefix/share/man/man1/gpuscale-$command.1" ] || fail "no page of $command"
    "$gpuscale" "$command" --help-all | sed -n 's/^  --\([a-z0-9.-]*\).*/\1/p' | while read -r flag; do
        grep -qF -- "\\-\\-$(printf '%s\n' "$flag" | sed 's/-/\\-/g')" "$prefix/share/man/man1/gpuscale-$command.1" ||
            fail "gpuscale-$command.1 lacks --$flag"
    done
done

# --- completion ---
PATH=$prefix/bin:$PATH
candidates() { gpuscale __complete -- "$@" | cut -f 1 | tr '\n' ' '; }
check() {
    want=$1
    shift
    [ "$(candidates "$@")" = "$want" ] || fail "candidates of \"$*\": $(candidates "$@")"
}
check "expander explain exporter " ex
check "adapter budgets config hpa metrics rules web-config test convert " check ""
check "rules hpa nodes " check test ""
check "--run= " check test --ru
check "--strict " check --str
check "--output=json " query --output=j
check "json " query --output j
check ":files " check rules ""
check ":directories " up --data-dir ""
check "--gpus=4xH100-80GB-HBM3 " up --gpus=4xH100-8
check "bash zsh fish " completion ""
check "" no-such-command ""
check "" query -- --ou # after the end of the flags
# The names of metrics come from a running engine. A server that is away has none.
check "" query --url=http://127.0.0.1:1 DCGM
check "" explain --kubeconfig=/nonexistent hpa ""
printf '{contexts: [{name: one, context: {cluster: a}}, {name: other}, {context: {}}]}' >"$dir/contexts"
check "--context=one --context=other " explain --kubeconfig="$dir/contexts" hpa --context=
check "other " nodes --kubeconfig "$dir/contexts" --context ot
check "" explain metric "" # a path of the API, not a file

# In bash: what Tab puts into the line.
cat >"$dir/tab.bash" <<'END'
source "$1"
try() { # LINE
    COMP_LINE=$1 COMP_POINT=${#1} COMPREPLY=()
    # The words as bash splits them.
    read -ra raw <<< "${1//=/ = }"
    [[ $1 == *[[:space:]] ]] && raw+=('')
    COMP_WORDS=("${raw[@]}") COMP_CWORD=$((${#raw[@]} - 1))
    _gpuscale
    printf '%s ' "${COMPREPLY[@]}"
    echo
}
try 'gpuscale expo'
try 'gpuscale query --output=js'
try 'gpuscale query --output='
cd "$2" && try 'gpuscale check rules deploy/meson.bui'
END
bash "$dir/tab.bash" "$prefix/share/bash-completion/completions/gpuscale.bash" "$source" >"$dir/tab.txt"
cat >"$dir/tab.want" <<END
exporter 
json 
table json csv promql 
deploy/meson.build 
END
diff "$dir/tab.want" "$dir/tab.txt" || fail "completion in bash"
if command -v fish >/dev/null 2>&1; then
    [ "$(fish -c "source $prefix/share/fish/vendor_completions.d/gpuscale.fish; complete -C'gpuscale query --output=js'")" = "--output=json" ] || fail "completion in fish"
fi
if command -v zsh >/dev/null 2>&1; then
    zsh -n "$prefix/share/zsh/site-functions/_gpuscale" || fail "the script for zsh"
fi

# --- uninstalling ---
DESTDIR=$root ninja -C "$build" uninstall >"$dir/uninstall.txt" 2>&1 || { cat "$dir/uninstall.txt" && fail "ninja uninstall"; }
left=$([ ! -e "$root" ] || find "$root" -type f -o -type l)
[ -z "$left" ] || fail "left behind: $left"
