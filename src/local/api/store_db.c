// SPDX-License-Identifier: Apache-2.0
// The database of the store: one row per object. A file that is not sound is set aside and a new
// one is made, because a cluster of one machine must start again.
#include "local/api/store.h"

#include "base/clock.h"
#include "base/database.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SCHEMA_VERSION 1
// resourceVersions are reserved in blocks, so that a write need not update the counter's row: after
// a restart the counter continues after the reserved block.
#define RV_BLOCK 1000

enum { STMT_PUT, STMT_DELETE, STMT_RV, N_STMTS };
static const char *const statement_text[N_STMTS] = {
    [STMT_PUT] = ("INSERT INTO objects (bucket, ns, name, rv, body) VALUES (?1, ?2, ?3, ?4, ?5) "
                  "ON CONFLICT (bucket, ns, name) DO UPDATE SET rv = ?4, body = ?5"),
    [STMT_DELETE] = "DELETE FROM objects WHERE bucket = ?1 AND ns = ?2 AND name = ?3",
    [STMT_RV] = "UPDATE meta SET value = ?1 WHERE key = 'reserved_rv'",
};

struct local_api_store_db {
    sqlite3 *handle;
    char *path;
    sqlite3_stmt *stmts[N_STMTS];
    uint64_t reserved_rv;
};

static struct gs_error *db_error(struct local_api_store_db *db, const char *doing)
{
    int rc = sqlite3_errcode(db->handle);

    return gs_error_new(rc == SQLITE_BUSY || rc == SQLITE_LOCKED ? GS_EEXIST : GS_EIO,
                        "%s: %s: %s%s", db->path, doing, sqlite3_errmsg(db->handle),
                        rc == SQLITE_FULL ? " (make room on the file system of the data directory)"
                                          : "");
}

static struct gs_error *db_exec(struct local_api_store_db *db, const char *sql, const char *doing)
{
    return sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK ? NULL
                                                                        : db_error(db, doing);
}

// The first column of the first row, 0 when there is none.
static struct gs_error *db_query_int(struct local_api_store_db *db, const char *sql, int64_t *ret)
{
    sqlite3_stmt *stmt = NULL;
    struct gs_error *err = NULL;

    if (sqlite3_prepare_v2(db->handle, sql, -1, &stmt, NULL) != SQLITE_OK)
        return db_error(db, "reading the database");
    int rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    else if (rc == SQLITE_DONE)
        *ret = 0;
    else
        err = db_error(db, "reading the database");
    sqlite3_finalize(stmt);
    return err;
}

static bool is_corruption(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

// ret_sound false: the file is not a database that can be trusted.
static struct gs_error *db_check(struct local_api_store_db *db, bool *ret_sound)
{
    sqlite3_stmt *stmt = NULL;
    bool sound = false;

    int rc = sqlite3_prepare_v2(db->handle, "PRAGMA quick_check(1)", -1, &stmt, NULL);
    if (rc == SQLITE_OK) {
        rc = sqlite3_step(stmt);
        sound = rc == SQLITE_ROW && gs_streq((const char *)sqlite3_column_text(stmt, 0), "ok");
    }
    struct gs_error *err = NULL;
    if (rc != SQLITE_ROW && !is_corruption(rc))
        err = db_error(db, "checking the database");
    sqlite3_finalize(stmt);
    if (!err)
        *ret_sound = sound;
    return err;
}

static struct gs_error *db_prepare_schema(struct local_api_store_db *db)
{
    int64_t version = 0;
    struct gs_error *err = db_query_int(db, "PRAGMA user_version", &version);

    if (err)
        return err;
    if (version > SCHEMA_VERSION)
        return gs_error_new(GS_EINVAL,
                            "%s: written by a newer version of this program (schema %" PRId64
                            ", known: %d): use that version, or another data directory",
                            db->path, version, SCHEMA_VERSION);
    if (version == SCHEMA_VERSION)
        return NULL;
    return db_exec(db,
                   "BEGIN;"
                   "CREATE TABLE objects (bucket TEXT NOT NULL, ns TEXT NOT NULL,"
                   " name TEXT NOT NULL, rv INTEGER NOT NULL, body TEXT NOT NULL,"
                   " PRIMARY KEY (bucket, ns, name)) WITHOUT ROWID;"
                   "CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);"
                   "INSERT INTO meta VALUES ('reserved_rv', 0);"
                   "PRAGMA user_version = 1;"
                   "COMMIT",
                   "making the tables");
}

static void db_shut(struct local_api_store_db *db)
{
    for (size_t i = 0; i < N_STMTS; i++) {
        sqlite3_finalize(db->stmts[i]);
        db->stmts[i] = NULL;
    }
    sqlite3_close_v2(db->handle);
    db->handle = NULL;
}

// Objects include Secrets: the file is for its owner only, before SQLite writes to it.
static struct gs_error *make_private_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return gs_error_errno(errno, "opening %s", path);
    int rc = fchmod(fd, 0600);
    int saved = errno;
    close(fd);
    return rc == 0 ? NULL : gs_error_errno(saved, "restricting access to %s", path);
}

static struct gs_error *db_connect(struct local_api_store_db *db, bool *ret_sound)
{
    if (gs_database_is_emptied(db->path))
        gs_warn(
            "store",
            "%s has 0 bytes: the objects that were in it are lost, and the cluster starts empty; "
            "stop gpuscale and restore the file if you have a copy",
            db->path);
    struct gs_error *err = make_private_file(db->path);
    if (err)
        return err;
    if (sqlite3_open_v2(db->path, &db->handle, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
        SQLITE_OK)
        return db_error(db, "opening the database");
    sqlite3_extended_result_codes(db->handle, 0);
    // Exclusive first: WAL mode then needs no shared memory, and a second program is refused.
    if (sqlite3_exec(db->handle,
                     "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                     "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304;"
                     "BEGIN IMMEDIATE; COMMIT",
                     NULL, NULL, NULL) != SQLITE_OK) {
        int rc = sqlite3_errcode(db->handle);
        if (is_corruption(rc)) {
            *ret_sound = false;
            return NULL;
        }
        if (rc == SQLITE_BUSY)
            return gs_error_new(GS_EEXIST,
                                "%s is in use: another gpuscale runs on this data directory (stop "
                                "it, or give this one its own --data-dir)",
                                db->path);
        return db_error(db, "opening the database");
    }
    return db_check(db, ret_sound);
}

static struct gs_error *set_aside(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-journal"};
    int64_t now = gs_unix_ms();

    for (size_t i = 0; i < GS_ARRAY_LEN(suffixes); i++) {
        GS_AUTO_FREE char *from = gs_format("%s%s", path, suffixes[i]);
        GS_AUTO_FREE char *to = gs_format("%s.corrupt-%" PRId64 "%s", path, now, suffixes[i]);
        if (rename(from, to) != 0 && errno != ENOENT)
            return gs_error_errno(errno, "setting the damaged %s aside", from);
    }
    gs_warn("store",
            "%s is damaged: set aside as %s.corrupt-%" PRId64 ", starting without any objects",
            path, path, now);
    return NULL;
}

static struct gs_error *db_prepare_statements(struct local_api_store_db *db)
{
    for (size_t i = 0; i < N_STMTS; i++)
        if (sqlite3_prepare_v3(db->handle, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &db->stmts[i], NULL) != SQLITE_OK)
            return db_error(db, "preparing statements");
    return NULL;
}

struct gs_error *local_api_store_db_open(const char *path, struct local_api_store_db **ret)
{
    GS_CLEANUP(local_api_store_db_closep) struct local_api_store_db *db = gs_alloc(sizeof *db);
    bool sound = true;

    db->path = gs_strdup(path);
    struct gs_error *err = db_connect(db, &sound);
    if (!err && !sound) {
        db_shut(db);
        err = set_aside(path);
        sound = true;
        if (!err)
            err = db_connect(db, &sound);
        if (!err && !sound)
            err =
                gs_error_new(GS_EIO, "%s: a new database reads back damaged: check the disk", path);
    }
    if (!err)
        err = db_prepare_schema(db);
    if (!err)
        err = db_prepare_statements(db);
    if (err)
        return err;
    *ret = GS_TAKE(db);
    return NULL;
}

void local_api_store_db_close(struct local_api_store_db *db)
{
    if (!db)
        return;
    db_shut(db);
    free(db->path);
    free(db);
}

struct gs_error *local_api_store_db_load(struct local_api_store_db *db,
                                         local_api_store_db_row_fn fn, void *arg, uint64_t *ret_rv)
{
    sqlite3_stmt *stmt = NULL;
    int64_t reserved = 0;

    struct gs_error *err =
        db_query_int(db, "SELECT value FROM meta WHERE key = 'reserved_rv'", &reserved);
    if (err)
        return err;
    if (sqlite3_prepare_v2(db->handle,
                           "SELECT bucket, ns, name, rv, body FROM objects ORDER BY 1, 2, 3", -1,
                           &stmt, NULL) != SQLITE_OK)
        return db_error(db, "reading objects");
    int rc;
    while ((rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        int64_t rv = sqlite3_column_int64(stmt, 3);
        const void *body = sqlite3_column_text(stmt, 4);
        if (rv > reserved)
            reserved = rv;
        fn(arg, (const char *)sqlite3_column_text(stmt, 0),
           (const char *)sqlite3_column_text(stmt, 1), (const char *)sqlite3_column_text(stmt, 2),
           (uint64_t)rv, gs_slice_make(body, (size_t)sqlite3_column_bytes(stmt, 4)));
    }
    if (rc != SQLITE_DONE)
        err = db_error(db, "reading objects");
    sqlite3_finalize(stmt);
    if (err)
        return err;
    db->reserved_rv = (uint64_t)reserved;
    *ret_rv = (uint64_t)reserved;
    return NULL;
}

static struct gs_error *run(struct local_api_store_db *db, sqlite3_stmt *stmt, const char *doing)
{
    int rc = sqlite3_step(stmt);
    struct gs_error *err = rc == SQLITE_DONE ? NULL : db_error(db, doing);

    sqlite3_reset(stmt);
    sqlite3_clear_bindings(stmt);
    return err;
}

static struct gs_error *reserve_rv(struct local_api_store_db *db, uint64_t rv)
{
    if (rv <= db->reserved_rv)
        return NULL;
    sqlite3_bind_int64(db->stmts[STMT_RV], 1, (int64_t)(rv + RV_BLOCK));
    struct gs_error *err = run(db, db->stmts[STMT_RV], "writing the version counter");
    if (!err)
        db->reserved_rv = rv + RV_BLOCK;
    return err;
}

static void bind_key(sqlite3_stmt *stmt, const char *bucket, const char *ns, const char *name)
{
    sqlite3_bind_text(stmt, 1, bucket, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, ns, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 3, name, -1, SQLITE_STATIC);
}

struct gs_error *local_api_store_db_put(struct local_api_store_db *db, const char *bucket,
                                        const char *ns, const char *name, uint64_t rv,
                                        struct gs_slice body)
{
    sqlite3_stmt *stmt = db->stmts[STMT_PUT];
    struct gs_error *err = reserve_rv(db, rv);

    if (err)
        return err;
    bind_key(stmt, bucket, ns, name);
    sqlite3_bind_int64(stmt, 4, (int64_t)rv);
    sqlite3_bind_text64(stmt, 5, body.data, body.len, SQLITE_STATIC, SQLITE_UTF8);
    return run(db, stmt, "writing an object");
}

struct gs_error *local_api_store_db_delete(struct local_api_store_db *db, const char *bucket,
                                           const char *ns, const char *name, uint64_t rv)
{
    struct gs_error *err = reserve_rv(db, rv);

    if (err)
        return err;
    bind_key(db->stmts[STMT_DELETE], bucket, ns, name);
    return run(db, db->stmts[STMT_DELETE], "deleting an object");
}
