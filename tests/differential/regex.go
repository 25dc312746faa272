// SPDX-License-Identifier: Apache-2.0

// Random regular expressions and texts with the results of Go's regexp, one per line:
// hex of the pattern, hex of the text, and "1" (the whole text matches), "0", or "E" and hex of the error.
// Usage: go run regex.go SEED COUNT
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"regexp/syntax"
	"strconv"
)

var pieces = []string{
	"a", "b", "c", "-", "1", " ", "\t", "\v", "é", ".", ":", "]", "}", ",", "x{2}", "a{,2}", "b{1,3}", "^", "$", "|", "(", ")",
	"(?:", "(?i)b", "(?i)", "(?s-i)", "(?i)*", "{500}", "{3}", "{0}", "[[:a]", "[:]", "[[:foo:]]", "(?P<n>", "(?P<1>", "(?<m>", "*", "+", "?", "*?", "[ab]", "[^a]", "[a-c]", "[\\d-a]", "[\\s]", "[^\\s]", "[\\S]",
	"[[:alpha:]]", "[:alpha:]", "[[:^digit:]b]", "[]a]", "[-a]", "[a-]", "[\\]]", "[\\b]", "[\\1]", "[\\v]", "[[]", "[^]]",
	"\\d", "\\D", "\\s", "\\S", "\\w", "\\W", "\\v", "\\n", "\\t", "\\.", "\\-", "\\_", "\\b", "\\B", "\\A", "\\z", "\\Z", "\\h", "\\R",
	"\\K", "\\G", "\\N", "\\X", "\\e", "\\E", "\\1", "\\101", "\\0", "\\x41", "\\x{62}", "\\pL", "\\p{Lu}", "\\PN", "\\Qa.b\\E", "\\C", "\\8",
}

var texts = []string{"", "a", "b", "ab", "abc", "aab", "a b", "A", "1", "-", "\v", "\n", "\t", " ", "é", "a.b", "a-1", "]", "[", ":", "alph", "ax", "\x00", "a{,2}"}

func main() {
	seed, _ := strconv.ParseInt(os.Args[1], 10, 64)
	count, _ := strconv.Atoi(os.Args[2])
	r := rand.New(rand.NewSource(seed))
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for range count {
		pattern := ""
		for range 1 + r.Intn(5) {
			pattern += pieces[r.Intn(len(pieces))]
		}
		text := texts[r.Intn(len(texts))]
		// Prometheus wraps expressions like this.
		if _, err := syntax.Parse(pattern, syntax.Perl); err != nil {
			fmt.Fprintf(out, "%x/%x/E%x\n", pattern, text, err.Error())
			continue
		}
		result := 0
		if regexp.MustCompile("^(?s:" + pattern + ")$").MatchString(text) {
			result = 1
		}
		fmt.Fprintf(out, "%x/%x/%d\n", pattern, text, result)
	}
}
