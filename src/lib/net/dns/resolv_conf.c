// SPDX-License-Identifier: Apache-2.0
// Newer releases of c-ares do not report the search list that they have read.
#include "net/dns/dns_private.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"

enum { MAX_FILE = 65536, MAX_NDOTS = 15, DEFAULT_NDOTS = 1 };

static struct gs_slice next_word(struct gs_slice *line)
{
    size_t i = 0, end;
    while (i < line->len && (line->data[i] == ' ' || line->data[i] == '\t'))
        i++;
    for (end = i; end < line->len && line->data[end] != ' ' && line->data[end] != '\t';)
        end++;
    struct gs_slice word = gs_slice_make(line->data + i, end - i);
    *line = gs_slice_make(line->data + end, line->len - end);
    return word;
}

static void clear_suffixes(struct dns_search *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->suffixes[i]);
    s->n = 0;
}

// one: of "domain", which has one suffix.
static void take_suffixes(struct dns_search *s, struct gs_slice line, size_t *cap, bool one)
{
    clear_suffixes(s);
    for (struct gs_slice word; (word = next_word(&line)).len && !(one && s->n);) {
        if (word.data[word.len - 1] == '.')
            word.len--;
        if (!word.len)
            continue;
        gs_grow(&s->suffixes, cap, s->n, sizeof(*s->suffixes));
        s->suffixes[s->n++] = gs_slice_dup(word);
    }
}

static void take_options(struct dns_search *s, struct gs_slice line)
{
    static const char ndots[] = "ndots:";
    for (struct gs_slice word; (word = next_word(&line)).len;) {
        if (!gs_slice_starts(word, ndots))
            continue;
        int64_t n;
        struct gs_slice text =
            gs_slice_make(word.data + sizeof(ndots) - 1, word.len - (sizeof(ndots) - 1));
        struct gs_error *err = gs_parse_i64(text, 0, INT32_MAX, &n);
        if (!err)
            s->ndots = n < MAX_NDOTS ? (size_t)n : MAX_NDOTS;
        gs_error_free(err);
    }
}

void dns_search_read(const char *path, struct dns_search *ret)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    size_t cap = 0;
    *ret = (struct dns_search){.ndots = DEFAULT_NDOTS};
    gs_error_free(gs_file_read(path ? path : "/etc/resolv.conf", MAX_FILE, &text));
    struct gs_slice rest = gs_buf_slice(&text);
    while (rest.data) {
        struct gs_slice line = gs_slice_cut(&rest, '\n');
        struct gs_slice key = next_word(&line);
        if (gs_slice_eq_str(key, "search") || gs_slice_eq_str(key, "domain"))
            take_suffixes(ret, line, &cap, gs_slice_eq_str(key, "domain"));
        else if (gs_slice_eq_str(key, "options"))
            take_options(ret, line);
    }
}

void dns_search_finish(struct dns_search *s)
{
    clear_suffixes(s);
    free(s->suffixes);
}
