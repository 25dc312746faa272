# Functions of the documentation tests. They run the commands ("$ " lines) of each ```console block
# after a comment <!-- test -->, and compare the output with the page.
#
# Lines are compared after normalization of ages, addresses, ports, hashes, names of machines, UUIDs,
# timestamps and spaces, and of all numbers with <!-- test: numbers vary -->. "…" matches any text, and a line with
# only "…" matches any lines. Commands that only read are repeated until the output matches. A block
# after <!-- file: NAME --> is the content of that file. A test defines with_ports (a filter) first.

# extract FILE: writes blocks/FILE-LINE.mode and .text for its marked blocks, and its files to files/.
mkdir "$dir/blocks" "$dir/files"
extract() {
    awk -v out="$dir/blocks/$(basename "$1")" -v files="$dir/files" '
        /^<!-- file: [^ ]+ -->$/ { file = files "/" $3; next }
        in_file && /^```$/ { close(file); in_file = 0; file = ""; next }
        in_file { print >file; next }
        file != "" && /^```/ { in_file = 1; next }
        /^<!-- test.* -->$/ { mode = /numbers vary/ ? "loose" : "exact"; next }
        inside && /^```$/ { inside = 0; close(base ".text"); next }
        inside { print >(base ".text"); next }
        mode != "" && /^```console$/ {
            base = sprintf("%s-%03d", out, NR)
            print mode >(base ".mode"); close(base ".mode"); inside = 1
        }
        { mode = "" }' "$1"
}
# normalise MODE: what differs from run to run.
normalise() {
    sed -E \
        -e 's/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/UUID/g' \
        -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/TIME/g' \
        -e 's/127\.[0-9]+\.[0-9]+\.[0-9]+(:[0-9]+)?/ADDRESS/g' \
        -e 's#/gpuscale-[0-9a-z-]+#/gpuscale-SET#g' \
        -e "s/^( *export [A-Z_]+=)'(.*)'\$/\1\2/" \
        -e 's/(^|[^0-9a-z])(gpuscale-[0-9a-z-]+)-[0-9a-z]{5}([^0-9a-z-]|$)/\1\2-NODE\3/g' \
        -e 's/-[0-9a-z]{6,10}-[0-9a-z]{5}([^0-9a-z]|$)/-POD\1/g' \
        -e 's/(^|[ (])[0-9]+[smhd]([0-9]+[smhd])?([ )]|$)/\1AGE\3/g' |
        if [ "$1" = loose ]; then sed -E 's/[0-9]+(\.[0-9]+)?/N/g'; else cat; fi |
        sed -E -e 's/[[:blank:]]+/ /g' -e 's/ $//'
}

# agrees WANT GOT (files): line by line, "…" is a wildcard.
agrees() {
    awk '
        function pattern(s) { gsub(/[][\\.*^$+?(){}|\/]/, "\\\\&", s); gsub(/…/, ".*", s); return "^" s "$" }
        NR == FNR { want[++n] = $0; next }
        { got[++m] = $0 }
        END {
            j = 1
            for (i = 1; i <= n; i++) {
                if (want[i] == "…") { any = 1; continue }
                while (any && j <= m && got[j] !~ pattern(want[i])) j++
                any = 0
                if (j > m || got[j] !~ pattern(want[i])) exit 1
                j++
            }
            exit !(any || j > m)
        }' "$1" "$2"
}

only_looks() {
    case $1 in
    *'&') return 1 ;;
    'kubectl get'* | 'kubectl describe'* | 'kubectl logs'* | curl* | 'gpuscale sim status'* | 'gpuscale query'* | 'gpuscale top'*) return 0 ;;
    *) return 1 ;;
    esac
}

# after_command COMMAND: what a test does after each command.
after_command() { :; }

# run_command WHERE MODE COMMAND: $dir/shown holds what it should print.
run_command() {
    command=$(printf '%s\n' "$3" | with_ports)
    normalise "$2" <"$dir/shown" >"$dir/want"
    end=$(($(date +%s) + patience))
    while :; do
        if [ "$command" = wait ]; then
            wait "$background" || true
            cat "$dir/background" >"$dir/printed"
        elif [ "${command%&}" != "$command" ]; then
            case $command in gpuscale\ engine* | gpuscale\ exporter* | kubectl\ port-forward*) command="exec $command" ;; esac
            eval "${command%&}" >"$dir/background" 2>&1 &
            background=$!
            echo "$background" >"$dir/background-$background.pid" # for stop_all, when the page does not end it
            : >"$dir/printed"
        else
            eval "$command" >"$dir/printed" 2>&1 </dev/null || true
        fi
        normalise "$2" <"$dir/printed" >"$dir/got"
        agrees "$dir/want" "$dir/got" && break
        if only_looks "$command" && [ "$(date +%s)" -lt "$end" ]; then
            sleep 0.5
            continue
        fi
        echo "--- shown in the page, normalised:"
        cat "$dir/want"
        echo "--- printed:"
        cat "$dir/printed"
        fail "$1: $3"
    done
    echo "ok: $1: $3"
    after_command "$3"
}

# run_block BASE
run_block() {
    where=$(basename "$1") mode=$(cat "$1.mode") command=
    : >"$dir/shown"
    while IFS= read -r line <&3 || [ -n "$line" ]; do
        case $line in
        '$ '*)
            [ -z "$command" ] || run_command "$where" "$mode" "$command"
            command=${line#\$ }
            : >"$dir/shown"
            ;;
        *) printf '%s\n' "$line" >>"$dir/shown" ;;
        esac
    done 3<"$1.text"
    [ -z "$command" ] || run_command "$where" "$mode" "$command"
}
