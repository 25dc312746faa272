// SPDX-License-Identifier: Apache-2.0
// `gpuscale up --kube-context`: a context in the user's own kubeconfig while the cluster runs. The
// file DIR/kube-context names it, so that --stop and the next start remove it after a crash, too.
#include "up/up_private.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/json.h"
#include "kube/kubeconfig.h"

#include <ctype.h>
#include <unistd.h>

#define NOTE      "kube-context"
#define MAX_NAME  63
#define MAX_NOTE  65536
#define BASE_NAME "gpuscale"

struct gs_error *up_kube_context_check(const char *option)
{
    size_t n = 0;
    while (option[n] && (isalnum((unsigned char)option[n]) || strchr("._-", option[n])))
        n++;
    if (!option[n] && n <= MAX_NAME)
        return NULL;
    return gs_error_new(GS_EINVAL,
                        "--kube-context %s: want at most %d letters, digits, '.', '_' and '-'",
                        option, MAX_NAME);
}

static char *note_path(const char *dir)
{
    return gs_format("%s/" NOTE, dir);
}

static struct gs_error *write_note(const char *dir, const char *file, const char *context)
{
    GS_AUTO_FREE char *path = note_path(dir);
    CODEC_AUTO_JSON json_t *note = json_object();
    GS_AUTO_BUF struct gs_buf text = {0};
    codec_json_set_str(note, "file", file);
    codec_json_set_str(note, "context", context);
    codec_json_dump(note, &text);
    return gs_file_write_atomic(path, 0600, gs_buf_slice(&text));
}

struct gs_error *up_kube_context_add(const struct up_cluster *c, const char *option,
                                     const struct kube_config *k, char **ret_text)
{
    GS_AUTO_FREE char *file = kube_config_file_to_change(c->kubeconfig);
    GS_AUTO_FREE char *name = *option ? gs_format(BASE_NAME "-%s", option) : gs_strdup(BASE_NAME);
    // The note is first: after a crash in between, there is nothing to remove.
    struct gs_error *err = write_note(c->data_dir, file, name);
    if (!err)
        err = kube_config_merge(file, name, c->data_dir, k);
    if (err)
        return gs_error_wrap(err, "--kube-context");
    *ret_text = gs_format("context %s in %s", name, file);
    return NULL;
}

struct gs_error *up_kube_context_remove(const char *dir)
{
    GS_AUTO_FREE char *path = note_path(dir);
    GS_AUTO_BUF struct gs_buf text = {0};
    CODEC_AUTO_JSON json_t *note = NULL;
    if (access(path, F_OK) < 0)
        return NULL;
    struct gs_error *err = gs_file_read(path, MAX_NOTE, &text);
    if (!err)
        err = codec_json_parse(gs_buf_slice(&text), false, &note);
    const char *file = codec_json_str(note, "file", NULL);
    const char *context = codec_json_str(note, "context", NULL);
    if (!err && file && context)
        err = kube_config_unmerge(file, context, dir);
    if (err)
        return gs_error_wrap(err, "the context of this cluster in another kubeconfig");
    unlink(path);
    return NULL;
}

void up_kube_context_end(const char *dir)
{
    GS_AUTO_ERROR struct gs_error *err = up_kube_context_remove(dir);
    if (err)
        gs_warn("up", "%s", gs_error_message(err));
}
