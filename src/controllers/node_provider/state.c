// SPDX-License-Identifier: Apache-2.0
// The state file: a SQLite database with a row for each machine. A row is committed to the disk
// before the step that it describes begins.
#include "node_provider/node_provider_private.h"

#include "base/database.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <sys/stat.h>

#define SCHEMA_VERSION 1

enum { STMT_PUT, STMT_DELETE, STMT_BEGIN, STMT_COMMIT, STMT_ROLLBACK, N_STMTS };
static const char *const statement_text[N_STMTS] = {
    [STMT_PUT] = ("INSERT OR REPLACE INTO machines (name, pool, provider_id, step, created_ms,"
                  " changed_ms, attempts, error_code, error_message, out_of_resources, process)"
                  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"),
    [STMT_DELETE] = "DELETE FROM machines WHERE name = ?1",
    [STMT_BEGIN] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
    [STMT_ROLLBACK] = "ROLLBACK",
};

struct node_provider_state {
    sqlite3 *db;
    char *path;
    int lock;
    sqlite3_stmt *stmts[N_STMTS];
};

static struct gs_error *state_error(struct node_provider_state *s, const char *doing)
{
    return gs_error_new(GS_EIO, "%s: %s: %s", s->path, doing, sqlite3_errmsg(s->db));
}

static struct gs_error *exec_sql(struct node_provider_state *s, const char *sql, const char *doing)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ? NULL : state_error(s, doing);
}

static struct gs_error *run_statement(struct node_provider_state *s, int i, const char *doing)
{
    const int rc = sqlite3_step(s->stmts[i]);
    struct gs_error *err = rc == SQLITE_DONE ? NULL : state_error(s, doing);
    sqlite3_reset(s->stmts[i]);
    return err;
}

// --- opening ---

// The lock belongs to the process and ends with it, also by kill -9. (One of flock() would live in
// a child that has not executed its program yet.)
static struct gs_error *lock_directory(struct node_provider_state *s, const char *dir)
{
    GS_AUTO_FREE char *path = gs_format("%s/lock", dir);
    s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->lock < 0)
        return gs_error_errno(errno, "opening %s", path);
    struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(s->lock, F_SETLK, &whole_file) == 0)
        return NULL;
    if (errno == EACCES || errno == EAGAIN)
        return gs_error_new(GS_EEXIST,
                            "%s: another node provider uses this directory. Stop it, or choose "
                            "another directory and other pools",
                            dir);
    return gs_error_errno(errno, "locking %s", path);
}

static struct gs_error *query_version(struct node_provider_state *s, int *ret)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(s->db, "PRAGMA user_version", -1, &stmt, NULL) != SQLITE_OK)
        return state_error(s, "reading the schema version");
    struct gs_error *err = NULL;
    if (sqlite3_step(stmt) == SQLITE_ROW)
        *ret = sqlite3_column_int(stmt, 0);
    else
        err = state_error(s, "reading the schema version");
    sqlite3_finalize(stmt);
    return err;
}

static struct gs_error *make_schema(struct node_provider_state *s)
{
    int version = 0;
    struct gs_error *err = query_version(s, &version);
    if (err || version == SCHEMA_VERSION)
        return err;
    if (version > SCHEMA_VERSION)
        return gs_error_new(GS_EINVAL,
                            "%s: written by a newer version of gpuscale (schema %d, known: %d)",
                            s->path, version, SCHEMA_VERSION);
    return exec_sql(s,
                    "BEGIN;"
                    "CREATE TABLE machines (name TEXT PRIMARY KEY, pool TEXT NOT NULL,"
                    " provider_id TEXT NOT NULL, step INTEGER NOT NULL,"
                    " created_ms INTEGER NOT NULL, changed_ms INTEGER NOT NULL,"
                    " attempts INTEGER NOT NULL, error_code TEXT, error_message TEXT,"
                    " out_of_resources INTEGER NOT NULL, process TEXT) WITHOUT ROWID;"
                    "PRAGMA user_version = 1;"
                    "COMMIT",
                    "creating the tables");
}

static struct gs_error *open_database(struct node_provider_state *s)
{
    if (gs_database_is_emptied(s->path))
        gs_warn("node-provider",
                "%s has 0 bytes: the machines that were in it are forgotten and are "
                "not deleted; restore the file, or delete them yourself",
                s->path);
    const int fd = open(s->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return gs_error_errno(errno, "opening %s", s->path);
    close(fd);
    if (sqlite3_open_v2(s->path, &s->db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        return state_error(s, "opening the state file");
    struct gs_error *err = exec_sql(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
                                    "configuring the state file");
    if (!err)
        err = make_schema(s);
    for (size_t i = 0; !err && i < N_STMTS; i++)
        if (sqlite3_prepare_v2(s->db, statement_text[i], -1, &s->stmts[i], NULL) != SQLITE_OK)
            err = state_error(s, "preparing statements");
    return err;
}

struct gs_error *node_provider_state_open(const char *dir, struct node_provider_state **ret)
{
    struct gs_error *err = gs_mkdir_p(dir, 0700);
    if (err)
        return err;
    struct node_provider_state *s = gs_alloc(sizeof(*s));
    s->path = gs_format("%s/state.db", dir);
    s->lock = -1;
    err = lock_directory(s, dir);
    if (!err)
        err = open_database(s);
    if (err) {
        node_provider_state_close(s);
        return err;
    }
    *ret = s;
    return NULL;
}

void node_provider_state_close(struct node_provider_state *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < N_STMTS; i++)
        sqlite3_finalize(s->stmts[i]);
    sqlite3_close_v2(s->db);
    if (s->lock >= 0)
        close(s->lock);
    free(s->path);
    free(s);
}

// --- rows ---

static void bind_text(sqlite3_stmt *stmt, int i, const char *text)
{
    sqlite3_bind_text(stmt, i, text, -1, SQLITE_STATIC);
}

struct gs_error *node_provider_state_put(struct node_provider_state *s,
                                         const struct node_provider_machine *m)
{
    sqlite3_stmt *stmt = s->stmts[STMT_PUT];
    bind_text(stmt, 1, m->name);
    bind_text(stmt, 2, m->pool_name);
    bind_text(stmt, 3, m->provider_id);
    sqlite3_bind_int(stmt, 4, (int)m->step);
    sqlite3_bind_int64(stmt, 5, m->created_ms);
    sqlite3_bind_int64(stmt, 6, m->changed_ms);
    sqlite3_bind_int(stmt, 7, (int)m->attempts);
    bind_text(stmt, 8, m->error_code);
    bind_text(stmt, 9, m->error_message);
    sqlite3_bind_int(stmt, 10, m->out_of_resources);
    bind_text(stmt, 11, m->process);
    struct gs_error *err = run_statement(s, STMT_PUT, "writing a machine");
    sqlite3_clear_bindings(stmt);
    return err;
}

struct gs_error *node_provider_state_delete(struct node_provider_state *s, const char *name)
{
    bind_text(s->stmts[STMT_DELETE], 1, name);
    return run_statement(s, STMT_DELETE, "deleting a machine");
}

struct gs_error *node_provider_state_begin(struct node_provider_state *s)
{
    return run_statement(s, STMT_BEGIN, "beginning a transaction");
}

struct gs_error *node_provider_state_end(struct node_provider_state *s, struct gs_error *err)
{
    if (!err)
        err = run_statement(s, STMT_COMMIT, "committing");
    if (err)
        gs_error_free(run_statement(s, STMT_ROLLBACK, "rolling back"));
    return err;
}

static char *column_text(sqlite3_stmt *stmt, int i)
{
    return gs_strdup((const char *)sqlite3_column_text(stmt, i));
}

static struct node_provider_machine *read_row(sqlite3_stmt *stmt)
{
    struct node_provider_machine *m = gs_alloc(sizeof(*m));
    m->name = column_text(stmt, 0);
    m->pool_name = column_text(stmt, 1);
    m->provider_id = column_text(stmt, 2);
    m->step = (enum node_provider_step)sqlite3_column_int(stmt, 3);
    m->created_ms = sqlite3_column_int64(stmt, 4);
    m->changed_ms = sqlite3_column_int64(stmt, 5);
    m->attempts = (unsigned)sqlite3_column_int(stmt, 6);
    m->error_code = column_text(stmt, 7);
    m->error_message = column_text(stmt, 8);
    m->out_of_resources = sqlite3_column_int(stmt, 9) != 0;
    m->process = column_text(stmt, 10);
    return m;
}

struct gs_error *node_provider_state_load(struct node_provider_state *s,
                                          void (*fn)(void *arg, struct node_provider_machine *m),
                                          void *arg)
{
    sqlite3_stmt *stmt = NULL;
    if (sqlite3_prepare_v2(s->db,
                           "SELECT name, pool, provider_id, step, created_ms, changed_ms, attempts,"
                           " error_code, error_message, out_of_resources, process FROM machines"
                           " ORDER BY created_ms, name",
                           -1, &stmt, NULL) != SQLITE_OK)
        return state_error(s, "reading the machines");
    int rc = 0;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW)
        fn(arg, read_row(stmt));
    struct gs_error *err = rc == SQLITE_DONE ? NULL : state_error(s, "reading the machines");
    sqlite3_finalize(stmt);
    return err;
}

void node_provider_machine_free(struct node_provider_machine *m)
{
    if (!m)
        return;
    node_provider_command_free(m->command);
    free(m->name);
    free(m->pool_name);
    free(m->provider_id);
    free(m->error_code);
    free(m->error_message);
    free(m->process);
    free(m);
}
