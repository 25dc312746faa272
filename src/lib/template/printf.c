// SPDX-License-Identifier: Apache-2.0
// Go's fmt.Sprintf for the types of templates: https://pkg.go.dev/fmt
#include "template/template_private.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>

#define MAX_WIDTH 1000

struct verb {
    bool minus, plus, sharp, zero, blank;
    int width, precision; // -1: none
    char letter;
};

struct printer {
    struct gs_slice fmt;
    size_t pos;
    const struct template_value *args;
    size_t n, used;
    struct gs_buf *out;
};

static size_t rune_count(struct gs_slice s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++)
        n += (s.data[i] & 0xc0) != 0x80;
    return n;
}

static void pad_out(struct printer *p, const struct verb *v, struct gs_slice text, bool number)
{
    size_t len = rune_count(text),
           fill = v->width > 0 && (size_t)v->width > len ? (size_t)v->width - len : 0;
    bool zero = v->zero && number && !v->minus;
    if (zero && text.len && (text.data[0] == '-' || text.data[0] == '+')) {
        gs_buf_add_char(p->out, text.data[0]);
        text.data++;
        text.len--;
    }
    for (size_t i = 0; !v->minus && i < fill; i++)
        gs_buf_add_char(p->out, zero ? '0' : ' ');
    gs_buf_add_slice(p->out, text);
    for (size_t i = 0; v->minus && i < fill; i++)
        gs_buf_add_char(p->out, ' ');
}

static void wrong_verb(struct printer *p, const struct verb *v, const struct template_value *arg)
{
    gs_buf_addf(p->out, "%%!%c(%s=", v->letter, template_type_name(arg));
    template_print(arg, p->out);
    gs_buf_add_char(p->out, ')');
}

static void print_int(struct printer *p, const struct verb *v, const struct template_value *arg)
{
    char text[80];
    size_t n = 0;
    uint64_t u = arg->u.i < 0 ? 0 - (uint64_t)arg->u.i : (uint64_t)arg->u.i;
    unsigned base = v->letter == 'b' ? 2 : v->letter == 'o' || v->letter == 'O' ? 8 : 10;
    if (v->letter == 'x' || v->letter == 'X')
        base = 16;
    const char *set = v->letter == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    char digits[66];
    size_t k = 0;
    do
        digits[k++] = set[u % base];
    while ((u /= base) > 0);
    if (arg->u.i < 0)
        text[n++] = '-';
    else if (v->plus)
        text[n++] = '+';
    else if (v->blank)
        text[n++] = ' ';
    if (base == 16 && v->sharp) {
        text[n++] = '0';
        text[n++] = v->letter;
    }
    while (k)
        text[n++] = digits[--k];
    pad_out(p, v, gs_slice_make(text, n), true);
}

static void add_digits(char letter, int precision, double d, struct gs_buf *out)
{
    switch (letter) {
    case 'e':
        gs_buf_addf(out, "%.*e", precision, d);
        return;
    case 'E':
        gs_buf_addf(out, "%.*E", precision, d);
        return;
    case 'f':
        gs_buf_addf(out, "%.*f", precision, d);
        return;
    case 'G':
        gs_buf_addf(out, "%.*G", precision, d);
        return;
    default:
        gs_buf_addf(out, "%.*g", precision, d);
        return;
    }
}

static void print_real(struct printer *p, const struct verb *v, double d)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    char letter = v->letter;
    if (letter == 'v' || letter == 'F')
        letter = letter == 'v' ? 'g' : 'f';
    bool finite = isfinite(d);
    if (finite && v->plus && !signbit(d))
        gs_buf_add_char(&text, '+');
    else if (v->blank && !signbit(d))
        gs_buf_add_char(&text, ' ');
    if (isnan(d)) {
        gs_buf_add_str(&text, v->plus ? "+NaN" : "NaN");
    } else if (!finite) {
        gs_buf_add_str(&text, d > 0 ? "+Inf" : "-Inf");
    } else if (v->precision < 0 && (letter == 'g' || letter == 'G')) {
        struct template_value shortest = template_float(d);
        template_print(&shortest, &text);
        for (size_t i = 0; letter == 'G' && i < text.len; i++)
            text.data[i] = (char)toupper((unsigned char)text.data[i]);
    } else {
        add_digits(letter, v->precision < 0 ? 6 : v->precision, d, &text);
    }
    pad_out(p, v, gs_buf_slice(&text), finite);
}

static struct gs_slice cut_runes(struct gs_slice s, int max)
{
    size_t i = 0;
    for (int n = 0; i < s.len; i++)
        if ((s.data[i] & 0xc0) != 0x80 && n++ == max)
            break;
    return gs_slice_make(s.data, i);
}

static void print_text(struct printer *p, const struct verb *v, struct gs_slice s)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (v->precision >= 0)
        s = cut_runes(s, v->precision);
    if (v->letter == 'q')
        template_quote(s, &text);
    else if (v->letter == 'x' || v->letter == 'X')
        for (size_t i = 0; i < s.len; i++)
            gs_buf_addf(&text, v->letter == 'x' ? "%02x" : "%02X", (unsigned char)s.data[i]);
    else
        gs_buf_add_slice(&text, s);
    pad_out(p, v, gs_buf_slice(&text), false);
}

static void print_char(struct printer *p, const struct verb *v, int64_t c)
{
    char b[4];
    size_t n = 0;
    if (c < 0 || c > 0x10ffff)
        c = 0xfffd;
    if (c < 0x80) {
        b[n++] = (char)c;
    } else {
        int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        b[n++] = (char)((0xf00 >> more) | (c >> (6 * more)));
        while (more--)
            b[n++] = (char)(0x80 | (c >> (6 * more) & 0x3f));
    }
    pad_out(p, v, gs_slice_make(b, n), false);
}

static void print_quoted_char(struct printer *p, const struct verb *v, int64_t c)
{
    struct gs_buf *out = p->out;
    GS_AUTO_BUF struct gs_buf text = {0};
    p->out = &text; // cppcheck-suppress autoVariables; until it is put back
    gs_buf_add_char(&text, '\'');
    print_char(p, &(struct verb){.width = -1}, c);
    gs_buf_add_char(&text, '\'');
    p->out = out;
    pad_out(p, v, gs_buf_slice(&text), false);
}

static void print_any(struct printer *p, const struct verb *v, const struct template_value *arg)
{
    GS_AUTO_BUF struct gs_buf text = {0};
    if (arg->type == VALUE_SAMPLE)
        gs_buf_add_char(&text, '&');
    template_print(arg, &text);
    pad_out(p, v, gs_buf_slice(&text), arg->type == VALUE_INT);
}

static void print_arg(struct printer *p, const struct verb *v, const struct template_value *arg)
{
    if (v->letter == 'T') {
        pad_out(p, v, gs_slice_of(template_type_name(arg)), false);
    } else if (arg->type == VALUE_FLOAT && strchr("vgGeEfF", v->letter)) {
        print_real(p, v, arg->u.f);
    } else if (arg->type == VALUE_INT && strchr("vdxXob", v->letter)) {
        print_int(p, v, arg);
    } else if (arg->type == VALUE_INT && v->letter == 'c') {
        print_char(p, v, arg->u.i);
    } else if (arg->type == VALUE_INT && v->letter == 'U' && arg->u.i >= 0) {
        gs_buf_addf(p->out, "U+%04llX", (unsigned long long)arg->u.i);
    } else if (arg->type == VALUE_INT && v->letter == 'q') {
        print_quoted_char(p, v, arg->u.i);
    } else if (arg->type == VALUE_STRING && strchr("vsqxX", v->letter)) {
        print_text(p, v, arg->u.s);
    } else if (v->letter == 'v' || (v->letter == 't' && arg->type == VALUE_BOOL) ||
               (v->letter == 's' && arg->type > VALUE_STRING)) {
        print_any(p, v, arg);
    } else {
        wrong_verb(p, v, arg);
    }
}

static int read_number(struct printer *p)
{
    int n = -1;
    while (p->pos < p->fmt.len && isdigit((unsigned char)p->fmt.data[p->pos])) {
        n = (n < 0 ? 0 : n) * 10 + (p->fmt.data[p->pos++] - '0');
        if (n > MAX_WIDTH)
            n = MAX_WIDTH;
    }
    return n;
}

static int star_or_number(struct printer *p)
{
    if (p->pos >= p->fmt.len || p->fmt.data[p->pos] != '*')
        return read_number(p);
    p->pos++;
    if (p->used >= p->n || p->args[p->used].type != VALUE_INT)
        return -1;
    int64_t w = p->args[p->used++].u.i;
    return w < 0 ? 0 : w > MAX_WIDTH ? MAX_WIDTH : (int)w;
}

static void read_flags(struct printer *p, struct verb *v)
{
    for (; p->pos < p->fmt.len; p->pos++)
        switch (p->fmt.data[p->pos]) {
        case '-':
            v->minus = true;
            break;
        case '+':
            v->plus = true;
            break;
        case '#':
            v->sharp = true;
            break;
        case '0':
            v->zero = true;
            break;
        case ' ':
            v->blank = true;
            break;
        default:
            return;
        }
}

static void one_verb(struct printer *p)
{
    struct verb v = {.width = -1, .precision = -1};
    read_flags(p, &v);
    v.width = star_or_number(p);
    if (p->pos < p->fmt.len && p->fmt.data[p->pos] == '.') {
        p->pos++;
        v.precision = star_or_number(p);
        if (v.precision < 0)
            v.precision = 0;
        if (v.precision > 100)
            v.precision = 100;
    }
    if (p->pos >= p->fmt.len) {
        gs_buf_add_str(p->out, "%!(NOVERB)");
        return;
    }
    v.letter = p->fmt.data[p->pos++];
    if (v.letter == '%')
        gs_buf_add_char(p->out, '%');
    else if (p->used >= p->n)
        gs_buf_addf(p->out, "%%!%c(MISSING)", v.letter);
    else
        print_arg(p, &v, &p->args[p->used++]);
}

void template_printf(struct gs_slice fmt, const struct template_value *args, size_t n,
                     struct gs_buf *out)
{
    struct printer p = {.fmt = fmt, .args = args, .n = n, .out = out};
    while (p.pos < fmt.len && !out->overflow) {
        char c = fmt.data[p.pos++];
        if (c == '%')
            one_verb(&p);
        else
            gs_buf_add_char(out, c);
    }
    if (p.used >= n)
        return;
    gs_buf_add_str(out, "%!(EXTRA ");
    for (size_t i = p.used; i < n; i++) {
        gs_buf_addf(out, "%s%s=", i > p.used ? ", " : "", template_type_name(&args[i]));
        template_print(&args[i], out);
    }
    gs_buf_add_char(out, ')');
}
