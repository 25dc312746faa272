// SPDX-License-Identifier: Apache-2.0
// Numbered files of the log and of snapshots: listing, mapping, dropping. The newest time of a
// file decides when retention may delete it.
#include "tsdb/wal.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/num.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static char *path_of(const struct tsdb_wal_files *f, unsigned number)
{
    return gs_format("%s/%s%08u", f->dir, f->prefix, number);
}

static int compare_wal_files(const void *a, const void *b)
{
    const struct tsdb_wal_file *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

static struct tsdb_wal_file *add_wal_file(struct tsdb_wal_files *f, unsigned number,
                                          int64_t newest_ms)
{
    gs_grow(&f->items, &f->cap, f->n, sizeof(*f->items));
    f->items[f->n] = (struct tsdb_wal_file){.number = number, .newest_ms = newest_ms};
    return &f->items[f->n++];
}

struct gs_error *tsdb_wal_files_list(struct tsdb_wal_files *f, const char *dir_path,
                                     const char *prefix)
{
    *f = (struct tsdb_wal_files){.dir = gs_strdup(dir_path), .prefix = gs_strdup(prefix)};
    f->next_number = 1;
    DIR *dir = opendir(dir_path);
    if (!dir)
        return gs_error_errno(errno, "%s", dir_path);
    const struct dirent *entry;
    while ((entry = readdir(dir))) {
        uint64_t number;
        struct gs_slice name = gs_slice_of(entry->d_name), digits = name;
        if (!gs_slice_starts(name, prefix))
            continue;
        digits.data += strlen(prefix);
        digits.len -= strlen(prefix);
        GS_AUTO_ERROR struct gs_error *err = gs_parse_u64(digits, UINT32_MAX - 1, &number);
        struct stat st;
        if (err)
            continue;
        struct tsdb_wal_file *file = add_wal_file(f, (unsigned)number, INT64_MAX);
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
            file->bytes = (uint64_t)st.st_size;
        f->bytes += file->bytes;
    }
    closedir(dir);
    if (!f->n)
        return NULL;
    qsort(f->items, f->n, sizeof(*f->items), compare_wal_files);
    f->next_number = f->items[f->n - 1].number + 1;
    return NULL;
}

void tsdb_wal_files_finish(struct tsdb_wal_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        tsdb_wal_files_unmap(f->items[i].kept);
    free(f->dir);
    free(f->prefix);
    free(f->items);
}

bool tsdb_wal_files_map(struct tsdb_wal_files *f, size_t i, struct gs_slice *ret)
{
    GS_AUTO_FREE char *path = path_of(f, f->items[i].number);
    GS_AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return false;
    size_t size = (size_t)st.st_size;
    f->bytes += size - f->items[i].bytes;
    f->items[i].bytes = size;
    *ret = GS_SLICE("");
    if (!size)
        return true;
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return false;
    (void)madvise(map, size, MADV_SEQUENTIAL);
    *ret = gs_slice_make(map, size);
    return true;
}

void tsdb_wal_files_unmap(struct gs_slice bytes)
{
    if (bytes.len)
        munmap((void *)bytes.data, bytes.len);
}

bool tsdb_wal_files_keep(struct tsdb_wal_files *f, size_t i)
{
    return tsdb_wal_files_map(f, i, &f->items[i].kept);
}

void tsdb_wal_files_rest_one(const struct tsdb_wal_files *f, size_t i)
{
    struct gs_slice kept = f->items[i].kept;
    if (!kept.len)
        return;
    (void)madvise((void *)kept.data, kept.len, MADV_NORMAL); // the file was read sequentially
    (void)madvise((void *)kept.data, kept.len, MADV_DONTNEED);
}

void tsdb_wal_files_rest(const struct tsdb_wal_files *f)
{
    for (size_t i = 0; i < f->n; i++)
        tsdb_wal_files_rest_one(f, i);
}

void tsdb_wal_files_sync_last(const struct tsdb_wal_files *f)
{
    if (!f->n)
        return;
    GS_AUTO_FREE char *path = path_of(f, f->items[f->n - 1].number);
    (void)tsdb_file_sync_now(open(path, O_RDONLY | O_CLOEXEC), f->dir);
}

int tsdb_wal_files_create(struct tsdb_wal_files *f, struct gs_slice header)
{
    const struct tsdb_wal_file *file = add_wal_file(f, f->next_number++, INT64_MIN);
    GS_AUTO_FREE char *path = path_of(f, file->number);
    // O_TRUNC: an existing file with this number can only be the rest of a failed write.
    int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        f->error = errno;
    if (tsdb_wal_files_write(f, fd, header))
        return fd;
    // Without its whole header the file cannot be read: it counts as empty, and is deleted as such.
    if (fd >= 0)
        close(fd);
    f->bytes -= f->items[f->n - 1].bytes;
    f->items[f->n - 1].bytes = 0;
    return -1;
}

bool tsdb_wal_files_write(struct tsdb_wal_files *f, int fd, struct gs_slice bytes)
{
    size_t done = 0;
    if (fd < 0)
        return false;
    while (done < bytes.len) {
        ssize_t n = write(fd, bytes.data + done, bytes.len - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            f->error = n < 0 ? errno : EIO;
            break;
        }
        done += (size_t)n;
    }
    if (done == bytes.len)
        f->error = 0;
    f->items[f->n - 1].bytes += done;
    f->bytes += done;
    return done == bytes.len;
}

void tsdb_wal_files_newest(struct tsdb_wal_files *f, int64_t t_ms)
{
    struct tsdb_wal_file *last = &f->items[f->n - 1];
    if (t_ms > last->newest_ms)
        last->newest_ms = t_ms;
}

static void delete_file(struct tsdb_wal_files *f, const struct tsdb_wal_file *file)
{
    GS_AUTO_FREE char *path = path_of(f, file->number);
    (void)unlink(path);
    tsdb_wal_files_unmap(file->kept);
    f->bytes -= file->bytes;
}

static void drop_front(struct tsdb_wal_files *f, size_t n_dropped)
{
    for (size_t i = 0; i < n_dropped; i++)
        delete_file(f, &f->items[i]);
    f->n -= n_dropped;
    if (n_dropped && f->n)
        memmove(f->items, f->items + n_dropped, f->n * sizeof(*f->items));
}

void tsdb_wal_files_drop_older(struct tsdb_wal_files *f, int64_t oldest_ms)
{
    size_t n_dropped = 0;
    while (n_dropped + 1 < f->n && f->items[n_dropped].newest_ms < oldest_ms)
        n_dropped++;
    drop_front(f, n_dropped);
}

int64_t tsdb_wal_files_oldest_for(const struct tsdb_wal_files *f, uint64_t max_bytes)
{
    int64_t oldest_ms = INT64_MIN;
    uint64_t left = f->bytes;
    for (size_t i = 0; i + 1 < f->n && left > max_bytes; i++) {
        left -= f->items[i].bytes;
        if (f->items[i].newest_ms >= oldest_ms)
            oldest_ms = f->items[i].newest_ms + 1;
    }
    return oldest_ms;
}

void tsdb_wal_files_drop_before(struct tsdb_wal_files *f, unsigned number)
{
    size_t n_dropped = 0;
    while (n_dropped < f->n && f->items[n_dropped].number < number)
        n_dropped++;
    drop_front(f, n_dropped);
}

void tsdb_wal_files_drop_last(struct tsdb_wal_files *f)
{
    delete_file(f, &f->items[--f->n]);
}

void tsdb_wal_files_drop_empty(struct tsdb_wal_files *f)
{
    size_t n = 0, first = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (f->items[i].bytes) {
            f->items[n++] = f->items[i];
            continue;
        }
        first = first ? first : f->items[i].number;
        delete_file(f, &f->items[i]);
    }
    GS_AUTO_FREE char *path = path_of(f, (unsigned)first);
    if (f->n - n == 1)
        gs_warn("tsdb", "%s has 0 bytes: the samples that were in it are lost", path);
    else if (f->n > n)
        gs_warn("tsdb",
                "%s and %zu more files have 0 bytes: the samples that were in them are lost", path,
                f->n - n - 1);
    f->n = n;
}

void tsdb_wal_files_note_damage(const struct tsdb_wal_files *f, size_t i, uint64_t before,
                                struct tsdb_wal_recovery *stats)
{
    if (stats->corrupt == before)
        return;
    if (!stats->damaged++)
        snprintf(stats->first_damaged, sizeof(stats->first_damaged), "%s%08u", f->prefix,
                 f->items[i].number);
}
