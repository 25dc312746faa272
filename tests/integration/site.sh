#!/bin/sh
# The documentation as HTML: all pages are in the navigation, all links work, nothing comes from other servers, and the search
# index has words of the pages.
. "$(dirname "$0")/lib.sh"
cd "$source"
/usr/bin/python3 -c 'import sphinx, myst_parser, furo' 2>/dev/null || skip "Sphinx, MyST or Furo is not installed (make site installs them)"

tools/site "$dir/site" >"$dir/site.txt" 2>&1 || { cat "$dir/site.txt" && fail "tools/site"; }
for page in docs/*.md docs/*/*.md; do
    html=$dir/site/${page%.md}.html
    [ -s "$html" ] || fail "$page is not in the site: no link of docs/README.md leads to it"
done
for page in docs/*.md; do
    [ "$page" = docs/README.md ] || grep -q "reference internal\" href=\"$(basename "${page%.md}").html\"" "$dir/site/docs/README.html" ||
        fail "$page is not in the navigation: docs/README.md has no link to it"
done
grep -q 'id="five-minutes"' "$dir/site/README.html" || fail "anchors are not those of GitHub"
grep -q 'cabundl' "$dir/site/searchindex.js" || fail "no search index"
# A folder of the user is not removed.
mkdir "$dir/mine" && touch "$dir/mine/file"
! tools/site "$dir/mine" 2>"$dir/refused" || fail "a folder with other files is replaced"
[ -e "$dir/mine/file" ] && grep -q "was not made by this program" "$dir/refused" || fail "refused: $(cat "$dir/refused")"
echo ok
