#!/bin/sh
# Checks that links between pages lead to existing files and headings, and that files of the
# checkout that a page names in `…` exist.
set -eu
cd "${GPUSCALE_SOURCE_ROOT:?}"
dir=$(mktemp -d "${TMPDIR:-/tmp}/gpuscale-links-XXXXXX")
trap 'rm -rf "$dir"' EXIT

# Anchors as GitHub creates them: lower case, without punctuation, a hyphen for each space; "-1" for
# the second heading with the same name.
anchors() {
    awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ */, ""); print }' "$1" |
        sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g' | LC_ALL=C tr '[:upper:]' '[:lower:]' | LC_ALL=C tr -cd 'a-z0-9_ \n-' |
        tr ' ' '-' | awk '{ print seen[$0]++ ? $0 "-" seen[$0] - 1 : $0 }'
}

n=0 wrong=0
for page in *.md docs/*.md docs/*/*.md; do
    grep -oE '\]\([^) ]+\)' "$page" | sed 's/^](//; s/)$//' >"$dir/links" || true
    while read -r link; do
        case $link in *://* | mailto:*) continue ;; esac
        file=${link%%#*} heading=
        case $link in *'#'*) heading=${link#*#} ;; esac
        to=$page
        [ -z "$file" ] || to=$(dirname "$page")/$file
        if [ ! -e "$to" ]; then
            echo "$page: $to does not exist" && wrong=$((wrong + 1))
        elif [ -n "$heading" ] && ! anchors "$to" | grep -qxF -e "$heading"; then
            echo "$page: $to has no heading #$heading" && wrong=$((wrong + 1))
        fi
        n=$((n + 1))
    done <"$dir/links"
    # Words in capitals are placeholders.
    grep -oE '`(src|tests|docs|deploy|tools|bench|fuzz|examples)/[A-Za-z0-9_./-]+`' "$page" | tr -d '`' >"$dir/paths" || true
    while read -r path; do
        n=$((n + 1))
        case $path in *MODULE* | *NAME*) continue ;; esac
        [ -e "$path" ] || { echo "$page: $path does not exist" && wrong=$((wrong + 1)); }
    done <"$dir/paths"
done
[ "$n" -ge 50 ] || { echo "only $n links" && exit 1; }
[ "$wrong" = 0 ] || { echo "$wrong of $n are broken" && exit 1; }
echo "ok: $n links"
