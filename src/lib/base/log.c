// SPDX-License-Identifier: Apache-2.0
// Log lines: one write each, so that lines of threads do not mix. A line that repeats the last one
// within a second is counted instead of written.
#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log_level.h"
#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// The destination of log lines. Besides the signal flag, it is the only global state of the
// program. Settings are made before threads start, except the atomic level. The lock protects the
// sink, the observer and the detection of repeated lines.
static struct {
    _Atomic(enum gs_log_level) min_level;
    enum gs_log_format format;
    bool journal; // standard error is the journal of systemd, which stores the time of each line
    pthread_mutex_t lock;
    void (*sink)(void *arg, const char *line, size_t len);
    void *sink_arg;
    void (*observer)(void *arg, const char *component, const char *line, size_t len);
    void *observer_arg;
    uint64_t last_hash;
    int64_t last_ns;
    unsigned folded;
} logger = {.min_level = GS_LOG_INFO, .lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const level_names[] = {"debug", "info", "warn", "error"};
// The priorities of syslog, which the journal reads at the start of a line (sd-daemon(3)).
static const char *const journal_priorities[] = {"<7>", "<6>", "<4>", "<3>"};

// systemd sets JOURNAL_STREAM to the device and inode of the stream. Children inherit the variable,
// but may have another standard error.
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    if (!stream || fstat(STDERR_FILENO, &st) != 0)
        return false;
    GS_AUTO_FREE char *own =
        gs_format("%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
    return gs_streq(own, stream);
}

void gs_log_configure(enum gs_log_level min_level, enum gs_log_format format)
{
    logger.min_level = min_level;
    logger.format = format;
    logger.journal = stderr_is_journal();
}

bool gs_log_parse_level(const char *name, enum gs_log_level *ret)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(level_names); i++) {
        if (gs_streq(name, level_names[i])) {
            *ret = (enum gs_log_level)i;
            return true;
        }
    }
    return false;
}

struct gs_error *gs_log_configure_text(const char *level, const char *format)
{
    enum gs_log_level l;
    if (!gs_log_parse_level(level, &l))
        return gs_error_new(GS_EINVAL, "--log-level: \"%s\" is not one of debug, info, warn, error",
                            level);
    if (!gs_streq(format, "text") && !gs_streq(format, "json"))
        return gs_error_new(GS_EINVAL, "--log-format: \"%s\" is not one of text, json", format);
    gs_log_configure(l, gs_streq(format, "json") ? GS_LOG_JSON : GS_LOG_TEXT);
    return NULL;
}

enum gs_log_level gs_log_level(void)
{
    return logger.min_level;
}

void gs_log_set_level(enum gs_log_level min_level)
{
    logger.min_level = min_level;
}

void gs_log_set_sink(void (*sink)(void *arg, const char *line, size_t len), void *arg)
{
    pthread_mutex_lock(&logger.lock);
    logger.sink = sink;
    logger.sink_arg = arg;
    pthread_mutex_unlock(&logger.lock);
}

void gs_log_set_observer(void (*observer)(void *arg, const char *component, const char *line,
                                          size_t len),
                         void *arg)
{
    pthread_mutex_lock(&logger.lock);
    logger.observer = observer;
    logger.observer_arg = arg;
    pthread_mutex_unlock(&logger.lock);
}

static void add_json_string(struct gs_buf *out, const char *s)
{
    gs_buf_add_char(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            gs_buf_addf(out, "\\%c", c);
        else if (c < 0x20)
            gs_buf_addf(out, "\\u%04x", c);
        else
            gs_buf_add_char(out, (char)c);
    }
    gs_buf_add_char(out, '"');
}

static void append_line(struct gs_buf *out, enum gs_log_level level, const char *component,
                        const char *message)
{
    char when[GS_RFC3339_SIZE];
    gs_format_rfc3339_micro(gs_unix_us(), when);
    if (logger.format == GS_LOG_JSON) {
        gs_buf_addf(out, "{\"ts\":\"%s\",\"level\":\"%s\",\"component\":\"%s\",\"msg\":", when,
                    level_names[level], component);
        add_json_string(out, message);
        gs_buf_add_str(out, "}\n");
        return;
    }
    if (logger.journal && !logger.sink && !logger.observer)
        gs_buf_addf(out, "%s%-5s %s: ", journal_priorities[level], level_names[level], component);
    else
        gs_buf_addf(out, "%s %-5s %s: ", when, level_names[level], component);
    for (const char *s = message; *s; s++) // one event stays one line
        gs_buf_add_char(out, (char)((unsigned char)*s < 0x20 ? ' ' : *s));
    gs_buf_add_char(out, '\n');
}

static void write_record(const char *component, struct gs_slice text)
{
    if (logger.observer)
        logger.observer(logger.observer_arg, component, text.data, text.len);
    if (logger.sink) {
        logger.sink(logger.sink_arg, text.data, text.len);
        return;
    }
    ssize_t ignored = write(STDERR_FILENO, text.data, text.len);
    (void)ignored;
}

void gs_log(enum gs_log_level level, const char *component, const char *fmt, ...)
{
    if (level < logger.min_level)
        return;
    va_list ap;
    va_start(ap, fmt);
    GS_AUTO_FREE char *message = gs_vformat(fmt, ap);
    va_end(ap);

    GS_AUTO_BUF struct gs_buf out = {0};
    uint64_t hash = (uint64_t)level;
    for (const char *s = message; *s; s++)
        hash = hash * 1099511628211u + (unsigned char)*s;

    pthread_mutex_lock(&logger.lock);
    int64_t now = gs_mono_ns();
    if (hash == logger.last_hash && now - logger.last_ns < GS_NS_PER_SEC) {
        logger.folded++;
    } else {
        if (logger.folded) {
            GS_AUTO_FREE char *note = gs_format("last message repeated %u times", logger.folded);
            append_line(&out, level, component, note);
        }
        append_line(&out, level, component, message);
        logger.folded = 0;
        logger.last_hash = hash;
        logger.last_ns = now;
        write_record(component, gs_buf_slice(&out));
    }
    pthread_mutex_unlock(&logger.lock);
}
