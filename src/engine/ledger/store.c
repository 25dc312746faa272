// SPDX-License-Identifier: Apache-2.0
// The ledger on disk: a SQLite database. A write is one transaction, and it includes the time until
// which the ledger is complete, so nothing is counted twice or half after a crash.
#include "ledger/ledger_private.h"

#include "base/database.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <sqlite3.h>
#include <unistd.h>

#define SCHEMA_VERSION    1
#define DEFAULT_MAX_BYTES (INT64_C(256) << 20)
#define MEMORY_MAX_BYTES  (INT64_C(16) << 20) // of a ledger without a file
#define BUSY_MS           5000                // a reader waits this long for a checkpoint
#define DAY_HOURS         24
#define PRUNE_HOURS       24 // of history that are deleted at once because of their age
#define MAX_TIME_MS       (INT64_C(1) << 50)
#define MAX_AMOUNT_MS     1e18 // of a row
#define N_KEY             LEDGER_N_DIMENSIONS

enum {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_ROLLBACK,
    STMT_GROUP,
    STMT_HOUR,
    STMT_SAVED,
    STMT_NO_GPUS,
    STMT_GPU,
    STMT_UNTIL,
    N_STMTS
};
static const char *const statement_text[N_STMTS] = {
    [STMT_BEGIN] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
    [STMT_ROLLBACK] = "ROLLBACK",
    [STMT_GROUP] = "INSERT INTO groups (namespace, workload, owner, node, pool, machine, model,"
                   " confidence, last_hour) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
                   " ON CONFLICT DO UPDATE SET last_hour = max(last_hour, ?9) RETURNING id",
    [STMT_HOUR] = "INSERT INTO hours VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT DO UPDATE"
                  " SET busy = busy + ?3, idle = idle + ?4, free = free + ?5,"
                  " stranded = stranded + ?6, missing = missing + ?7, used = used + ?8",
    [STMT_SAVED] = "INSERT INTO saved VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE"
                   " SET saved = saved + ?3",
    [STMT_NO_GPUS] = "DELETE FROM gpus",
    [STMT_GPU] = "INSERT INTO gpus VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13,"
                 " ?14, ?15)",
    [STMT_UNTIL] = "INSERT INTO meta VALUES ('until', ?1) ON CONFLICT DO UPDATE SET value = ?1",
};

struct ledger_store {
    sqlite3 *db;
    char *path;
    bool in_memory;
    sqlite3_stmt *stmts[N_STMTS];
};

static struct gs_error *store_error(struct ledger_store *s, const char *doing)
{
    int rc = sqlite3_errcode(s->db);
    return gs_error_new(GS_EIO, "%s: %s: %s%s", s->path, doing, sqlite3_errmsg(s->db),
                        rc == SQLITE_FULL ? " (make room on its file system)" : "");
}

static struct gs_error *exec_sql(struct ledger_store *s, const char *sql, const char *doing)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? NULL : store_error(s, doing);
}

static struct gs_error *query_number(struct ledger_store *s, const char *sql, int64_t *ret)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return store_error(s, "reading");
    int rc = sqlite3_step(stmt);
    struct gs_error *err = rc == SQLITE_ROW || rc == SQLITE_DONE ? NULL : store_error(s, "reading");
    if (!err)
        *ret = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_finalize(stmt);
    return err;
}

// --- opening ---

static struct gs_error *check_version(struct ledger_store *s, int64_t *ret)
{
    struct gs_error *err = query_number(s, "PRAGMA user_version", ret);
    if (!err && *ret > SCHEMA_VERSION)
        err = gs_error_new(
            GS_EINVAL, "%s: written by a newer version of gpuscale (schema %" PRId64 ", known: %d)",
            s->path, *ret, SCHEMA_VERSION);
    return err;
}

static struct gs_error *make_schema(struct ledger_store *s)
{
    int64_t version = 0;
    struct gs_error *err = check_version(s, &version);
    if (err || version == SCHEMA_VERSION)
        return err;
    return exec_sql(
        s,
        "BEGIN;"
        "CREATE TABLE groups (id INTEGER PRIMARY KEY, namespace TEXT NOT NULL,"
        " workload TEXT NOT NULL, owner TEXT NOT NULL, node TEXT NOT NULL, pool TEXT NOT NULL,"
        " machine TEXT NOT NULL, model TEXT NOT NULL, confidence TEXT NOT NULL,"
        " last_hour INTEGER NOT NULL,"
        " UNIQUE (namespace, workload, owner, node, pool, machine, model, confidence));"
        "CREATE TABLE hours (hour INTEGER, grp INTEGER, busy REAL, idle REAL, free REAL,"
        " stranded REAL, missing REAL, used REAL, PRIMARY KEY (hour, grp)) WITHOUT ROWID;"
        "CREATE TABLE gpus (id TEXT PRIMARY KEY, uuid TEXT, gpu TEXT, node TEXT, pool TEXT,"
        " machine TEXT, model TEXT, ns TEXT, pod TEXT, workload TEXT, owner TEXT, share REAL,"
        " seen INTEGER, idle_since INTEGER, idle INTEGER) WITHOUT ROWID;"
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID;"
        "PRAGMA user_version = 1;"
        "COMMIT",
        "creating the tables");
}

// A table of its own, so that an older gpuscale still reads and writes the file.
static struct gs_error *add_saved_table(struct ledger_store *s)
{
    return exec_sql(s,
                    "CREATE TABLE IF NOT EXISTS saved (hour INTEGER, grp INTEGER, saved REAL,"
                    " PRIMARY KEY (hour, grp)) WITHOUT ROWID",
                    "creating the tables");
}

static struct gs_error *make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return gs_error_errno(errno, "opening %s", path);
    close(fd);
    return NULL;
}

static struct gs_error *open_writer(struct ledger_store *s)
{
    if (!s->in_memory && gs_database_is_emptied(s->path))
        gs_warn("ledger",
                "%s has 0 bytes: the GPU hours that were in it are lost, and the ledger "
                "starts empty",
                s->path);
    struct gs_error *err = s->in_memory ? NULL : make_file(s->path);
    if (err)
        return err;
    if (sqlite3_open_v2(s->in_memory ? ":memory:" : s->path, &s->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        return store_error(s, "opening the ledger");
    // NORMAL: a crash of the machine can lose the last minutes, but no part of a write.
    err = exec_sql(s,
                   "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
                   "PRAGMA journal_size_limit = 4194304; PRAGMA cache_size = -256",
                   "opening the ledger");
    if (!err)
        err = make_schema(s);
    if (!err)
        err = add_saved_table(s);
    for (size_t i = 0; !err && i < N_STMTS; i++)
        if (sqlite3_prepare_v3(s->db, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &s->stmts[i], NULL) != SQLITE_OK)
            err = store_error(s, "preparing statements");
    return err;
}

struct gs_error *ledger_store_open(const char *path, struct ledger_store **ret)
{
    struct ledger_store *s = gs_alloc(sizeof(*s));
    s->path = gs_strdup(path ? path : "ledger in memory");
    s->in_memory = !path;
    struct gs_error *err = open_writer(s);
    if (err) {
        ledger_store_close(s);
        return err;
    }
    *ret = s;
    return NULL;
}

// A reader creates files beside the database, for other processes. In a directory in which it
// cannot do that, such as of an archive, nobody else writes either if there is no log of writes.
static char *reader_uri(const char *path)
{
    GS_AUTO_BUF struct gs_buf uri = {0};
    GS_AUTO_FREE char *log = gs_format("%s-wal", path);
    GS_AUTO_FREE char *copy = gs_strdup(path);
    bool archive = access(log, F_OK) != 0 && access(dirname(copy), W_OK) != 0;
    gs_buf_add_str(&uri, *path == '/' ? "file://" : "file:");
    for (const char *c = path; *c; c++)
        gs_buf_addf(&uri, strchr("%?#", *c) ? "%%%02X" : "%c", (unsigned char)*c);
    gs_buf_add_str(&uri, archive ? "?immutable=1" : "");
    return gs_buf_take(&uri);
}

struct gs_error *ledger_store_open_reader(const char *path, struct ledger_store **ret)
{
    if (access(path, R_OK) != 0)
        return errno == ENOENT ? gs_error_new(GS_ENOTFOUND, "%s does not exist", path)
                               : gs_error_errno(errno, "opening %s", path);
    struct ledger_store *s = gs_alloc(sizeof(*s));
    s->path = gs_strdup(path);
    struct gs_error *err = NULL;
    int64_t version = 0;
    GS_AUTO_FREE char *uri = reader_uri(path);
    if (sqlite3_open_v2(uri, &s->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI,
                        NULL) != SQLITE_OK)
        err = store_error(s, "opening the ledger");
    else
        sqlite3_busy_timeout(s->db, BUSY_MS);
    if (!err)
        err = check_version(s, &version);
    if (!err && version == 0)
        err = gs_error_new(GS_EINVAL, "%s is not a ledger", path);
    if (err) {
        ledger_store_close(s);
        return err;
    }
    *ret = s;
    return NULL;
}

void ledger_store_close(struct ledger_store *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < N_STMTS; i++)
        sqlite3_finalize(s->stmts[i]);
    sqlite3_close_v2(s->db);
    free(s->path);
    free(s);
}

// --- writing ---

static struct gs_error *run_statement(struct ledger_store *s, int i)
{
    int rc = sqlite3_step(s->stmts[i]);
    struct gs_error *err =
        rc == SQLITE_DONE || rc == SQLITE_ROW ? NULL : store_error(s, "writing the ledger");
    sqlite3_reset(s->stmts[i]);
    return err;
}

struct writing {
    struct ledger_store *s;
    struct gs_error *err;
};

static struct gs_error *write_saved(struct ledger_store *s, int64_t hour_ms, int64_t group,
                                    double ms)
{
    sqlite3_bind_int64(s->stmts[STMT_SAVED], 1, hour_ms / LEDGER_HOUR_MS);
    sqlite3_bind_int64(s->stmts[STMT_SAVED], 2, group);
    sqlite3_bind_double(s->stmts[STMT_SAVED], 3, ms);
    return run_statement(s, STMT_SAVED);
}

static bool write_row(void *arg, int64_t hour_ms, const struct ledger_key *key,
                      const struct ledger_amount *a)
{
    struct writing *w = arg;
    sqlite3_stmt *group = w->s->stmts[STMT_GROUP], *hour = w->s->stmts[STMT_HOUR];
    for (int i = 0; i < N_KEY; i++)
        sqlite3_bind_text(group, i + 1, key->text[i], -1, SQLITE_STATIC);
    sqlite3_bind_int64(group, N_KEY + 1, hour_ms / LEDGER_HOUR_MS);
    int64_t id = 0;
    if (sqlite3_step(group) == SQLITE_ROW)
        id = sqlite3_column_int64(group, 0);
    else
        w->err = store_error(w->s, "writing the ledger");
    sqlite3_reset(group);
    sqlite3_clear_bindings(group);
    if (w->err)
        return false;
    sqlite3_bind_int64(hour, 1, hour_ms / LEDGER_HOUR_MS);
    sqlite3_bind_int64(hour, 2, id);
    for (int i = 0; i < LEDGER_N_STATES; i++)
        sqlite3_bind_double(hour, 3 + i, a->ms[i]);
    sqlite3_bind_double(hour, 3 + LEDGER_N_STATES, a->used_ms);
    w->err = run_statement(w->s, STMT_HOUR);
    if (!w->err && a->saved_ms > 0)
        w->err = write_saved(w->s, hour_ms, id, a->saved_ms);
    return !w->err;
}

static struct gs_error *write_gpus(struct ledger_store *s, const struct ledger_meter *m)
{
    sqlite3_stmt *stmt = s->stmts[STMT_GPU];
    struct gs_error *err = run_statement(s, STMT_NO_GPUS);
    const struct ledger_gpu *g;
    for (size_t pos = 0; !err && (g = ledger_meter_next(m, &pos));) {
        const char *const texts[] = {g->id,    g->uuid, g->gpu, g->node,     g->pool, g->machine,
                                     g->model, g->ns,   g->pod, g->workload, g->owner};
        const int n = (int)GS_ARRAY_LEN(texts);
        for (int i = 0; i < n; i++)
            sqlite3_bind_text(stmt, i + 1, texts[i], -1, SQLITE_STATIC);
        sqlite3_bind_double(stmt, n + 1, g->share);
        sqlite3_bind_int64(stmt, n + 2, g->seen_ms);
        sqlite3_bind_int64(stmt, n + 3, g->idle_since_ms);
        sqlite3_bind_int64(stmt, n + 4, g->idle_ms);
        err = run_statement(s, STMT_GPU);
    }
    sqlite3_clear_bindings(stmt);
    return err;
}

struct gs_error *ledger_store_write(struct ledger_store *s, const struct ledger_table *t,
                                    const struct ledger_meter *m, int64_t until_ms)
{
    struct writing w = {.s = s};
    w.err = run_statement(s, STMT_BEGIN);
    if (w.err)
        return w.err;
    ledger_table_each(t, write_row, &w);
    if (!w.err)
        w.err = write_gpus(s, m);
    if (!w.err) {
        sqlite3_bind_int64(s->stmts[STMT_UNTIL], 1, until_ms);
        w.err = run_statement(s, STMT_UNTIL);
    }
    if (!w.err)
        w.err = run_statement(s, STMT_COMMIT);
    if (w.err && !sqlite3_get_autocommit(s->db))
        gs_error_free(run_statement(s, STMT_ROLLBACK));
    return w.err;
}

// Deletes the rows of hours before this one, and the groups that have no hour any more.
static struct gs_error *delete_before(struct ledger_store *s, int64_t hour)
{
    GS_AUTO_FREE char *sql = gs_format("BEGIN IMMEDIATE; DELETE FROM hours WHERE hour < %" PRId64
                                       "; DELETE FROM saved WHERE hour < %" PRId64
                                       "; DELETE FROM groups WHERE last_hour < %" PRId64 "; COMMIT",
                                       hour, hour, hour);
    struct gs_error *err = exec_sql(s, sql, "deleting old hours");
    if (err && !sqlite3_get_autocommit(s->db))
        gs_error_free(run_statement(s, STMT_ROLLBACK));
    return err;
}

static struct gs_error *oldest_hour(struct ledger_store *s, int64_t *ret)
{
    return query_number(s, "SELECT hour FROM hours ORDER BY hour LIMIT 1", ret);
}

// The clock can be years ahead, for example at boot. Little of the history is deleted meanwhile.
static struct gs_error *delete_old(struct ledger_store *s, int64_t now_ms)
{
    int64_t end = now_ms / LEDGER_HOUR_MS - (int64_t)LEDGER_DAYS * DAY_HOURS, oldest = 0;
    struct gs_error *err = oldest_hour(s, &oldest);
    if (err || oldest >= end)
        return err;
    return delete_before(s, oldest < end - PRUNE_HOURS ? oldest + PRUNE_HOURS : end);
}

struct gs_error *ledger_store_prune(struct ledger_store *s, int64_t now_ms, int64_t max_bytes)
{
    if (max_bytes == 0)
        max_bytes = s->in_memory ? MEMORY_MAX_BYTES : DEFAULT_MAX_BYTES;
    struct gs_error *err = delete_old(s, now_ms);
    for (;;) {
        int64_t pages = 0, unused = 0, size = 0, oldest = 0;
        if (!err)
            err = query_number(s, "PRAGMA page_count", &pages);
        if (!err)
            err = query_number(s, "PRAGMA freelist_count", &unused);
        if (!err)
            err = query_number(s, "PRAGMA page_size", &size);
        if (!err)
            err = oldest_hour(s, &oldest);
        if (err || (pages - unused) * size <= max_bytes || oldest == 0)
            return err;
        err = delete_before(s, oldest + 1);
    }
}

// --- reading ---

// SQLite does not check the numbers of a damaged file.
static struct gs_error *damaged(const struct ledger_store *s)
{
    return gs_error_new(GS_EIO, "%s: damaged: a number is not possible", s->path);
}

static bool is_time(int64_t ms)
{
    return ms >= 0 && ms <= MAX_TIME_MS;
}

static bool is_amount(double ms)
{
    return ms >= 0 && ms <= MAX_AMOUNT_MS;
}

struct gs_error *ledger_store_until(struct ledger_store *s, int64_t *ret_ms)
{
    return query_number(s, "SELECT value FROM meta WHERE key = 'until'", ret_ms);
}

static const char *column(sqlite3_stmt *stmt, int i)
{
    const char *text = (const char *)sqlite3_column_text(stmt, i);
    return text ? text : "";
}

// The newest of each workload is the last.
static struct gs_error *restore_places(struct ledger_store *s, struct ledger_meter *m)
{
    sqlite3_stmt *stmt = NULL;
    int rc;
    if (sqlite3_prepare_v2(s->db,
                           "SELECT namespace, workload, owner, node, pool, machine, model,"
                           " confidence FROM groups WHERE namespace != '' AND node != ''"
                           " ORDER BY last_hour",
                           -1, &stmt, NULL) != SQLITE_OK)
        return store_error(s, "reading the workloads");
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct ledger_key key;
        for (int i = 0; i < N_KEY; i++)
            key.text[i] = column(stmt, i);
        ledger_meter_remember(m, &key);
    }
    struct gs_error *err = rc == SQLITE_DONE ? NULL : store_error(s, "reading the workloads");
    sqlite3_finalize(stmt);
    return err;
}

struct gs_error *ledger_store_restore(struct ledger_store *s, struct ledger_meter *m)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(s->db, "SELECT * FROM gpus", -1, &stmt, NULL) != SQLITE_OK)
        return store_error(s, "reading the GPUs");
    int rc;
    struct gs_error *err = NULL;
    while (!err && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        const struct ledger_gpu g = {.id = column(stmt, 0),
                                     .uuid = column(stmt, 1),
                                     .gpu = column(stmt, 2),
                                     .node = column(stmt, 3),
                                     .pool = column(stmt, 4),
                                     .machine = column(stmt, 5),
                                     .model = column(stmt, 6),
                                     .ns = column(stmt, 7),
                                     .pod = column(stmt, 8),
                                     .workload = column(stmt, 9),
                                     .owner = column(stmt, 10),
                                     .share = sqlite3_column_double(stmt, 11),
                                     .seen_ms = sqlite3_column_int64(stmt, 12),
                                     .idle_since_ms = sqlite3_column_int64(stmt, 13),
                                     .idle_ms = sqlite3_column_int64(stmt, 14)};
        if (!is_time(g.seen_ms) || !is_time(g.idle_since_ms) || !is_time(g.idle_ms) ||
            !(g.share >= 0 && g.share <= 1))
            err = damaged(s);
        else
            ledger_meter_restore(m, &g);
    }
    if (!err && rc != SQLITE_DONE)
        err = store_error(s, "reading the GPUs");
    sqlite3_finalize(stmt);
    return err ? err : restore_places(s, m);
}

// Files of an older gpuscale have no such table.
static struct gs_error *has_saved(struct ledger_store *s, bool *ret)
{
    int64_t n = 0;
    struct gs_error *err =
        query_number(s, "SELECT count(*) FROM sqlite_master WHERE name = 'saved'", &n);
    *ret = n > 0;
    return err;
}

struct gs_error *ledger_store_read(struct ledger_store *s, int64_t since_ms, int64_t until_ms,
                                   ledger_row_fn fn, void *arg)
{
    sqlite3_stmt *stmt = NULL;
    bool with_saved = false;
    struct gs_error *err = has_saved(s, &with_saved);
    if (err)
        return err;
    GS_AUTO_FREE char *sql = gs_format(
        "SELECT namespace, workload, owner, node, pool, machine, model, confidence, hours.hour,"
        " busy, idle, free, stranded, missing, used, %s FROM hours JOIN groups ON hours.grp = id"
        " %s WHERE hours.hour >= ?1 AND hours.hour < ?2",
        with_saved ? "coalesce(saved.saved, 0)" : "0",
        with_saved ? "LEFT JOIN saved ON saved.hour = hours.hour AND saved.grp = hours.grp" : "");
    if (sqlite3_prepare_v2(s->db, sql, -1, &stmt, NULL) != SQLITE_OK)
        return store_error(s, "reading the ledger");
    sqlite3_bind_int64(stmt, 1, since_ms / LEDGER_HOUR_MS);
    sqlite3_bind_int64(stmt, 2, (until_ms + LEDGER_HOUR_MS - 1) / LEDGER_HOUR_MS);
    int rc;
    bool more = true, valid = true;
    while (more && valid && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct ledger_key key;
        struct ledger_amount a;
        for (int i = 0; i < N_KEY; i++)
            key.text[i] = column(stmt, i);
        for (int i = 0; i < LEDGER_N_STATES; i++)
            a.ms[i] = sqlite3_column_double(stmt, N_KEY + 1 + i);
        a.used_ms = sqlite3_column_double(stmt, N_KEY + 1 + LEDGER_N_STATES);
        for (int i = 0; i < LEDGER_N_STATES; i++)
            valid = valid && is_amount(a.ms[i]);
        a.saved_ms = sqlite3_column_double(stmt, N_KEY + 2 + LEDGER_N_STATES);
        valid = valid && is_amount(a.used_ms) && is_amount(a.saved_ms);
        more = valid && fn(arg, sqlite3_column_int64(stmt, N_KEY) * LEDGER_HOUR_MS, &key, &a);
    }
    err = !valid                       ? damaged(s)
          : !more || rc == SQLITE_DONE ? NULL
                                       : store_error(s, "reading the ledger");
    sqlite3_finalize(stmt);
    return err;
}
