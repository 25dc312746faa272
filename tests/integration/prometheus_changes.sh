#!/bin/sh
# Checks docs/compatibility/prometheus-changes.md, and prometheus_changes.txt with the entries that are not applicable (release,
# position in the release, change, numbers, reason): the numbers in the summary, the tests that show what was carried over, and
# that each deviation is listed where the page links to. If the source of Prometheus can be downloaded, the page has the
# entries of its change log, in the same order.
. "$(dirname "$0")/lib.sh"
pages=$source/docs/compatibility
page=$pages/prometheus-changes.md
wrong=0
complain() { wrong=$((wrong + 1)) && echo "$1"; }

# "RELEASE TAB CHANGE TAB NUMBERS TAB OUTCOME TAB LAST" of each row.
rows() {
    awk -F ' \\| ' '/^## /{ release = $2 ? "" : substr($0, 4) }
        release && /^\| / && !/^\| change \|/ { sub(/^\| /, ""); sub(/ \|$/, ""); print release "\t" $1 "\t" $2 "\t" $3 "\t" $4 }' "$page"
}
summary() { grep -E '^\| (all|[0-9.]+) \| [0-9]+ \|' "$page"; }
# In the order of the change log: an entry that is not applicable has its position.
rows >"$dir/listed"
summary | awk '$2 != "all" { print $2 }' | awk -F '\t' -v OFS='\t' '
    FILENAME ~ /listed$/ { listed[$1, ++n[$1]] = $0; next }
    FILENAME ~ /txt$/ { other[$1, $2] = $1 OFS $3 OFS $4 OFS "not applicable" OFS $5; m[$1]++; next }
    { next_one = 0
        for (i = 1; i <= n[$1] + m[$1]; i++)
            print (($1, i) in other) ? other[$1, i] : listed[$1, ++next_one] }
' "$dir/listed" "$(dirname "$0")/prometheus_changes.txt" - >"$dir/rows"
[ "$(wc -l <"$dir/rows")" -ge 500 ] || fail "only $(wc -l <"$dir/rows") rows"

# --- numbers ---
count() { awk -F '\t' -v r="$1" -v o="$2" '(r == "all" || $1 == r) && (!o || $4 == o)' "$dir/rows" | wc -l; }
summary | while IFS=' |' read -r _ release n carried not deviations _; do
    printf '%s %s %s %s %s\n' "$release" "$n" "$carried" "$not" "$deviations"
done >"$dir/summary"
[ "$(sed '/^all/d; s/ .*//' "$dir/summary")" = "$(cut -f 1 "$dir/rows" | uniq)" ] || complain "the summary has other releases"
while read -r release n carried not deviations; do
    counted="$(count "$release" '') $(count "$release" 'carried over') $(count "$release" 'not applicable') $(count "$release" deviation)"
    [ "$n $carried $not $deviations" = "$counted" ] ||
        complain "$release: the summary says $n $carried $not $deviations, the table has $counted"
    [ "$n" = $((carried + not + deviations)) ] || complain "$release: another outcome"
done <"$dir/summary"

# --- outcomes ---
has_test() { # FILE or FILE:FUNCTION
    file=$source/${1%%:*}
    [ -f "$file" ] || return 1
    case $1 in *:*) grep -q "^static void ${1#*:}(" "$file" && grep -q "[( ]${1#*:}[),]" "$file" ;; esac
}
# Whether a page has the text of a link below the heading that the link names.
has_deviation() { # TEXT TARGET
    to=$pages/${2%%#*}
    [ -f "$to" ] && awk -v heading="${2#*#}" -v text="$1" '
        /^##+ / { name = tolower($0); sub(/^#+ /, "", name); gsub(/[^a-z0-9 -]/, "", name); gsub(/ /, "-", name); level = index($0, " ")
            if (name == heading) { inside = level } else if (inside && level <= inside) { inside = 0 } }
        inside && index($0, text) { found = 1 }
        END { exit !found }' "$to"
}
tab=$(printf '\t')
while IFS=$tab read -r release change _ outcome last; do
    case $outcome in
    'carried over')
        test=${last#\`} test=${test%\`}
        has_test "$test" || complain "$release: $change: there is no test $test"
        ;;
    'not applicable') [ "$last" ] || complain "$release: $change: no reason" ;;
    deviation)
        text=${last#\[} text=${text%%\](*} target=${last##*\](} target=${target%)}
        has_deviation "$text" "$target" || complain "$release: $change: $target does not list \"$text\""
        ;;
    esac
done <"$dir/rows"
[ "$wrong" = 0 ] || fail "$wrong mistakes"
echo "ok: $(wc -l <"$dir/rows") entries"

# --- the change log ---
files=$("$source/tests/differential/prometheus3.sh" --source) || { echo "not compared with the change log"; exit 0; }
# The numbers of the pull requests of an entry can be on the lines after it.
awk '/^## /{ release = $2 } release == "3.5.0" { exit }
    /^ ?[-*] +\[[A-Z]+\]/ { if (seen) print entry; entry = release " " $0; seen = 1; next }
    /^ +- / { entry = entry $0 }
    END { if (seen) print entry }' "$files/CHANGELOG.md" >"$dir/log"
while read -r release text; do
    printf '%s\t%s\n' "$release" "$(printf '%s' "$text" | grep -oE '#[0-9]+' | awk '!seen[$0]++' | paste -sd ' ' | sed 's/ /, /g')"
done <"$dir/log" | sed "s/$tab\$/$tab–/" >"$dir/theirs"
cut -f 1,3 "$dir/rows" | diff "$dir/theirs" - >"$dir/diff" || fail "the change log (<) has other entries: $(head -n 5 "$dir/diff")"
echo "ok: the entries of the change log"
