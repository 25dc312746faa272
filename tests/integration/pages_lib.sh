# For tests that give pages of text to the engine and to a Prometheus of version 3 (where it has been
# built, see tests/differential/prometheus3.sh) and compare what they make of them. Sources lib.sh.
. "$(dirname "$0")/lib.sh"
need curl jq perl
cache=$("$source/tests/differential/prometheus3.sh" --no-build) || skip "no Prometheus 3 has been built (make peers)"

# Pages by name. The first line of each file is the content type.
mkdir "$dir/pages" "$dir/accept"
om='application/openmetrics-text; version=1.0.0; charset=utf-8'
text='text/plain; version=0.0.4; charset=utf-8'
# page NAME TYPE: the body is read from stdin.
page() { { echo "$2" && cat; } >"$dir/pages/$1"; }

# The request headers for page NAME are written to accept/NAME.
cat >"$dir/server.pl" <<'P'
use strict; use IO::Socket::INET;
my $dir = shift; $SIG{PIPE} = $SIG{CHLD} = 'IGNORE'; $| = 1;
my $s = IO::Socket::INET->new(Listen => 50, LocalAddr => '127.0.0.1:0', ReuseAddr => 1) or die;
print $s->sockport, "\n";
while (my $c = $s->accept) {
    next if fork;
    my $path = <$c> // ''; $path = $path =~ m{^GET /(\w+)} ? $1 : '';
    my $accept = '';
    while (defined(my $l = <$c>)) { $accept = $l if $l =~ /^accept:/i; last if $l =~ /^\r?\n$/ }
    $accept =~ s/^accept:\s*|\r?\n$//gi;
    if ($path) { open my $f, '>>', "$dir/accept/$path"; print $f "$accept\n"; }
    open my $f, '<:raw', "$dir/pages/$path" or do { print $c "HTTP/1.0 404 Not Found\r\n\r\n"; exit };
    my $type = <$f>; chomp $type; local $/; my $body = <$f> // '';
    print $c "HTTP/1.0 200 OK\r\nContent-Type: $type\r\nContent-Length: ", length $body, "\r\n\r\n", $body;
    exit;
}
P
perl "$dir/server.pl" "$dir" >"$dir/port" 2>"$dir/server.log" &
pids=$!
wait_for "the pages are served" test -s "$dir/port"
pages=127.0.0.1:$(cat "$dir/port")

# compare WHAT MARK: waits until both results of `about URL`, which the test defines, are equal and
# contain MARK.
same() {
    about "$theirs" >"$dir/want"
    about "$ours" >"$dir/got"
    diff "$dir/want" "$dir/got" >"$dir/diff" && grep -q -- "$mark" "$dir/got"
}
compare() {
    mark=$2
    wait_same "$1: not the same, or without $2"
    echo "ok: $1: $(wc -l <"$dir/got") lines are the same"
}

# config YAML: both must accept it, or reject it with the same error. Settings without effect are
# rejected, unless the test sets strict=.
checked=0 strict=--strict
config() {
    checked=$((checked + 1))
    printf '%s\n' "$1" >"$dir/c.yml"
    "$cache/promtool" check config "$dir/c.yml" >"$dir/want" 2>&1 && want=ok || want=no
    "$gpuscale" check config $strict "$dir/c.yml" >"$dir/got" 2>&1 && got=ok || got=no
    [ "$want" = "$got" ] || { cat "$dir/want" "$dir/got"; fail "promtool: $want, gpuscale: $got: $1"; }
    [ "$want" = no ] && ! grep -q 'unmarshal errors\|parse "' "$dir/want" || return 0
    sed -n 's/.*FAILED: parsing YAML file [^ ]*: //p' "$dir/want" >"$dir/text"
    grep -qF "$(cat "$dir/text")" "$dir/got" || { cat "$dir/want" "$dir/got"; fail "another text: $1"; }
}
