// SPDX-License-Identifier: Apache-2.0
// The steps of one machine: each change is written to the state file before its command runs.
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "codec/encoding.h"
#include "node_provider/node_provider_private.h"

#define EXIT_NO_CAPACITY 69 // EX_UNAVAILABLE of sysexits.h
#define MAX_ATTEMPTS     3  // of a create command whose process was lost
#define LAST_RETRY       30 // times the first delay

const char *node_provider_step_name(enum node_provider_step step)
{
    static const char *const names[NODE_PROVIDER_N_STEPS] = {
        [NODE_PROVIDER_WANTED] = "wanted",     [NODE_PROVIDER_CREATING] = "creating",
        [NODE_PROVIDER_CREATED] = "created",   [NODE_PROVIDER_FAILED] = "failed",
        [NODE_PROVIDER_DELETING] = "deleting", [NODE_PROVIDER_GONE] = "gone",
    };
    return names[step];
}

void node_provider_log_state_error(const struct node_provider_pool *p, struct gs_error *err)
{
    gs_err("node-provider", "%s: the state cannot be saved; nothing is changed until it can: %s",
           p->spec->name, gs_error_message(err));
    gs_error_free(err);
}

static int64_t first_retry(const struct node_provider_machine *m)
{
    return m->pool->fleet->config.retry_ms;
}

// --- changes ---

struct gs_error *node_provider_set_step(struct node_provider_machine *m,
                                        enum node_provider_step step)
{
    struct node_provider_machine next = *m;
    next.step = step;
    next.changed_ms = gs_unix_ms();
    if (step != m->step)
        next.attempts = 0;
    struct gs_error *err = node_provider_state_put(m->pool->fleet->config.state, &next);
    if (err)
        return err;
    if (m->step != step)
        gs_debug("node-provider", "%s/%s: %s -> %s", m->pool_name, m->name,
                 node_provider_step_name(m->step), node_provider_step_name(step));
    m->step = step;
    m->changed_ms = next.changed_ms;
    m->attempts = next.attempts;
    return NULL;
}

struct gs_error *node_provider_set_process(struct node_provider_machine *m, const char *process)
{
    struct node_provider_machine next = *m;
    next.process = (char *)process;
    struct gs_error *err = node_provider_state_put(m->pool->fleet->config.state, &next);
    if (err)
        return err;
    free(m->process);
    m->process = gs_strdup(process);
    return NULL;
}

// Messages of gRPC must be UTF-8; Go's client rejects others.
static char *valid_text(const char *text)
{
    char *copy = gs_strdup(text ? text : "");
    struct gs_slice rest = gs_slice_of(copy);
    while (rest.len > 0) {
        const size_t n = codec_utf8_valid_prefix(rest);
        if (n == rest.len)
            break;
        copy[(size_t)(rest.data - copy) + n] = '?';
        rest = gs_slice_make(rest.data + n + 1, rest.len - n - 1);
    }
    return copy;
}

void node_provider_set_error(struct node_provider_machine *m, const char *code, const char *message,
                             bool out_of_resources)
{
    free(m->error_code);
    free(m->error_message);
    m->error_code = code ? valid_text(code) : NULL;
    m->error_message = code ? valid_text(message) : NULL;
    m->out_of_resources = out_of_resources;
}

static void save_step(struct node_provider_machine *m, enum node_provider_step step)
{
    struct gs_error *err = node_provider_set_step(m, step);
    if (err) {
        m->retry_ms = gs_unix_ms() + first_retry(m);
        node_provider_log_state_error(m->pool, err);
    }
}

// --- create ---

static void fail_creation(struct node_provider_machine *m, const char *code, const char *text,
                          bool out_of_resources)
{
    node_provider_set_error(m, code, text, out_of_resources);
    m->pool->failures[NODE_PROVIDER_CREATE]++;
    m->pool->failed_ms = gs_unix_ms();
    gs_warn("node-provider", "%s/%s: not created%s: %s", m->pool_name, m->name,
            out_of_resources ? " (out of resources)" : "", m->error_message);
    save_step(m, NODE_PROVIDER_FAILED);
}

static void read_created(struct node_provider_machine *m, const struct node_provider_result *r)
{
    GS_CLEANUP(node_provider_listed_finish) struct node_provider_listed l = {0};
    struct gs_error *err = node_provider_parse_created(r->output, &l);
    if (err) {
        fail_creation(m, "bad-output", gs_error_message(err), false);
        gs_error_free(err);
        return;
    }
    if (l.error_code || !r->ok) {
        const bool none = l.error_code ? l.out_of_resources : r->status == EXIT_NO_CAPACITY;
        const char *code = l.error_code   ? l.error_code
                           : r->timed_out ? "timeout"
                           : none         ? "out-of-resources"
                                          : "create-failed";
        fail_creation(m, code, l.error_code ? l.error_message : r->text, none);
        return;
    }
    if (l.provider_id)
        node_provider_set_id(m, l.provider_id);
    gs_info("node-provider", "%s/%s: created, provider ID %s", m->pool_name, m->name,
            m->provider_id);
    save_step(m, NODE_PROVIDER_CREATED);
}

static void forget_command(struct node_provider_machine *m)
{
    node_provider_command_free(m->command);
    m->command = NULL;
    free(m->process);
    m->process = NULL;
    m->pool->running--;
    m->list_after = m->pool->list_number + 1;
}

static void on_created(void *arg, const struct node_provider_result *r)
{
    struct node_provider_machine *m = arg;
    struct node_provider_pool *p = m->pool;
    // The result is borrowed from the command.
    if (m->step == NODE_PROVIDER_CREATING && !r->unknown)
        read_created(m, r);
    else if (m->step == NODE_PROVIDER_CREATING)
        gs_info("node-provider", "%s/%s: %s; the list command decides whether it exists",
                p->spec->name, m->name, r->text);
    forget_command(m);
    save_step(m, m->step); // without the process
    node_provider_list_now(p);
    node_provider_schedule(p);
}

// --- delete ---

static void delay_retry(struct node_provider_machine *m)
{
    const int64_t first = first_retry(m);
    m->retry_ms = gs_unix_ms() + gs_backoff_after(m->attempts, first, LAST_RETRY * first);
}

static void on_deleted(void *arg, const struct node_provider_result *r)
{
    struct node_provider_machine *m = arg;
    struct node_provider_pool *p = m->pool;
    delay_retry(m);
    if (r->ok) {
        m->deleted_ok = true;
        gs_info("node-provider", "%s/%s: the delete command has succeeded", p->spec->name, m->name);
    } else if (!r->unknown) {
        p->failures[NODE_PROVIDER_DELETE]++;
        gs_warn("node-provider", "%s/%s: not deleted, attempt %u; it is tried again: %s",
                p->spec->name, m->name, m->attempts, r->text);
    }
    forget_command(m);
    save_step(m, m->step);
    node_provider_list_now(p);
    node_provider_schedule(p);
}

// --- start of commands ---

static void start_failed(struct node_provider_machine *m, enum node_provider_action action,
                         struct gs_error *err)
{
    if (action == NODE_PROVIDER_CREATE) {
        fail_creation(m, "create-failed", gs_error_message(err), false);
    } else {
        delay_retry(m);
        gs_warn("node-provider", "%s/%s: %s", m->pool_name, m->name, gs_error_message(err));
    }
    gs_error_free(err);
}

static void run_command(struct node_provider_machine *m, enum node_provider_action action)
{
    struct node_provider_pool *p = m->pool;
    GS_CLEANUP(gs_arena_finish) struct gs_arena arena = {0};
    const struct node_provider_command_spec spec = node_provider_command_spec(p, action, m, &arena);
    struct gs_error *err = node_provider_command_new(
        p->fleet->config.loop, &spec, action == NODE_PROVIDER_CREATE ? on_created : on_deleted, m,
        &m->command);
    if (err) {
        start_failed(m, action, err);
        return;
    }
    GS_AUTO_FREE char *identity = node_provider_command_identity(m->command);
    err = node_provider_set_process(m, identity);
    if (err) { // the process has not become the command, and ends with its standard input
        node_provider_command_free(m->command);
        m->command = NULL;
        m->retry_ms = gs_unix_ms() + first_retry(m);
        node_provider_log_state_error(p, err);
        return;
    }
    p->running++;
    p->commands[action]++;
    gs_info("node-provider", "%s/%s: running the %s command", p->spec->name, m->name,
            node_provider_action_name(action));
    node_provider_command_release(m->command);
}

static void begin_step(struct node_provider_machine *m, enum node_provider_step step,
                       enum node_provider_action action)
{
    struct node_provider_machine before = *m;
    if (m->step != step)
        m->attempts = 0;
    m->attempts++;
    const unsigned attempts = m->attempts;
    m->step = step; // so that node_provider_set_step() keeps the number of attempts
    struct gs_error *err = node_provider_set_step(m, step);
    if (err) {
        m->step = before.step;
        m->attempts = before.attempts;
        m->retry_ms = gs_unix_ms() + first_retry(m);
        node_provider_log_state_error(m->pool, err);
        return;
    }
    m->attempts = attempts;
    m->deleted_ok = false;
    run_command(m, action);
}

void node_provider_adopt(struct node_provider_machine *m)
{
    if (!m->process)
        return;
    if (!node_provider_process_alive(m->process)) {
        free(m->process);
        m->process = NULL;
        return;
    }
    const bool deletes = m->step == NODE_PROVIDER_DELETING && m->attempts > 0;
    const enum node_provider_action action = deletes ? NODE_PROVIDER_DELETE : NODE_PROVIDER_CREATE;
    GS_AUTO_FREE char *label =
        gs_format("%s/%s: %s", m->pool_name, m->name, node_provider_action_name(action));
    gs_info("node-provider", "%s: waiting for the process of an earlier run", label);
    m->pool->running++;
    m->command = node_provider_command_adopt(m->pool->fleet->config.loop, m->process, label,
                                             m->pool->spec->commands.timeout_ms[action],
                                             deletes ? on_deleted : on_created, m);
}

static void resume_creation(struct node_provider_machine *m)
{
    // The last list began after the end of the process. If it contained the machine, the step would
    // be another one (reconcile.c).
    if (m->attempts >= MAX_ATTEMPTS)
        fail_creation(m, "create-failed",
                      "gpuscale was restarted during each attempt to create the machine", false);
    else
        begin_step(m, NODE_PROVIDER_CREATING, NODE_PROVIDER_CREATE);
}

static bool list_is_current(const struct node_provider_pool *p)
{
    return p->listed && !p->list_error && !p->lister && !p->list_again;
}

static void start_due(struct node_provider_machine *m, int64_t now)
{
    if (m->command || m->retry_ms > now)
        return;
    if (m->step == NODE_PROVIDER_WANTED && m->pool->listed)
        begin_step(m, NODE_PROVIDER_CREATING, NODE_PROVIDER_CREATE);
    else if (m->step == NODE_PROVIDER_CREATING && list_is_current(m->pool))
        resume_creation(m);
    else if (m->step == NODE_PROVIDER_DELETING && !m->deleted_ok)
        begin_step(m, NODE_PROVIDER_DELETING, NODE_PROVIDER_DELETE);
}

void node_provider_schedule(struct node_provider_pool *p)
{
    const int64_t now = gs_unix_ms();
    if (p->fleet->paused)
        return;
    // Deletions first: they free resources.
    for (size_t i = 0; i < p->len && p->running < p->spec->commands.concurrency; i++)
        if (p->machines[i]->step == NODE_PROVIDER_DELETING)
            start_due(p->machines[i], now);
    for (size_t i = 0; i < p->len && p->running < p->spec->commands.concurrency; i++)
        if (p->machines[i]->step == NODE_PROVIDER_WANTED ||
            p->machines[i]->step == NODE_PROVIDER_CREATING)
            start_due(p->machines[i], now);
}
