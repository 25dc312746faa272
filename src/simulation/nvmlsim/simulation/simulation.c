// SPDX-License-Identifier: Apache-2.0
// Simulated GPUs of one program (--simulate): a set of its own that ends with it, or a named one
// that is shared.
#include "nvmlsim/simulation/simulation.h"

#include "base/log.h"
#include "base/mem.h"

#include <unistd.h>

#define MAX_OWN 1000 // programs of one user with simulated GPUs of their own

char *simulation_own_name(void)
{
    return gs_format("/gpuscale-sim-%u", (unsigned)getuid());
}

static struct gs_error *join_or_make(const struct nvmlsim_spec *spec, const char *name,
                                     struct simulation *s, bool *ret_made)
{
    struct gs_error *err = nvmlsim_attach(name, &s->sim);
    if (!err || gs_error_code(err) != GS_ENOTFOUND)
        return err;
    gs_error_free(err);
    *ret_made = true;
    return nvmlsim_create(name, spec, &s->sim);
}

// The first name that no running program uses, so that the UUIDs are the same after a restart.
// A set that a killed program has left is replaced.
static struct gs_error *make_own(const struct nvmlsim_spec *spec, char **ret_name,
                                 struct simulation *s)
{
    struct gs_error *err = NULL;
    for (unsigned i = 1; i <= MAX_OWN; i++) {
        GS_AUTO_FREE char *number = i > 1 ? gs_format("-%u", i) : gs_strdup("");
        GS_AUTO_FREE char *name = gs_format("/gpuscale-exporter-%u%s", (unsigned)getuid(), number);
        gs_error_free(err);
        err = nvmlsim_create(name, spec, &s->sim);
        if (!err)
            *ret_name = GS_TAKE(name);
        if (!err || gs_error_code(err) != GS_EEXIST)
            return err;
    }
    return err;
}

static struct gs_error *open_set(const char *spec_text, const char *set, struct simulation *s)
{
    struct nvmlsim_spec spec;
    bool made = !set || !*set;
    GS_AUTO_FREE char *name = NULL;
    struct gs_error *err = simulation_load_spec(spec_text, &spec);
    if (err)
        return err;
    if (made) {
        err = make_own(&spec, &name, s);
    } else {
        name = gs_strdup(set);
        err = join_or_make(&spec, name, s, &made);
    }
    if (err)
        return err;
    setenv(NVMLSIM_ENV, name, 1);
    gs_info("exporter",
            "%s the SIMULATED GPUs %s (other programs share them with " NVMLSIM_ENV "=%s)",
            made ? "created" : "joined", name, name);
    if (made)
        s->name = GS_TAKE(name);
    return NULL;
}

struct gs_error *simulation_start(const char *spec, const char *set, struct simulation *s)
{
    if (!spec)
        return NULL;
    struct gs_error *err = open_set(spec, set, s);
    if (err)
        return gs_error_wrap(err, "--simulate");
    return simulation_find_library(&s->library);
}

void simulation_finish(struct simulation *s)
{
    nvmlsim_detach(s->sim);
    if (s->name)
        gs_error_free(nvmlsim_unlink(s->name));
    free(s->name);
    free(s->library);
    *s = (struct simulation){0};
}
