// SPDX-License-Identifier: Apache-2.0
#include "nvmlsim/simulation/simulation.h"

#include "base/log.h"
#include "base/mem.h"

#include <unistd.h>

char *simulation_own_name(void)
{
    return gs_format("/gpuscale-sim-%u", (unsigned)getuid());
}

static struct gs_error *join_or_make(const char *spec_text, struct simulation *s)
{
    struct nvmlsim_spec spec;
    struct gs_error *err = simulation_load_spec(spec_text, &spec);
    if (err)
        return err;
    const char *given = getenv(NVMLSIM_ENV);
    GS_AUTO_FREE char *name = given && *given ? gs_strdup(given) : simulation_own_name();
    err = nvmlsim_attach(name, &s->sim);
    bool make = err && gs_error_code(err) == GS_ENOTFOUND;
    if (make) {
        gs_error_free(err);
        err = nvmlsim_create(name, &spec, &s->sim);
    }
    if (err)
        return err;
    setenv(NVMLSIM_ENV, name, 1);
    gs_info("exporter", "%s the SIMULATED GPUs %s", make ? "created" : "joined", name);
    if (make)
        s->name = GS_TAKE(name);
    return NULL;
}

struct gs_error *simulation_start(const char *spec, struct simulation *s)
{
    if (!spec)
        return NULL;
    struct gs_error *err = join_or_make(spec, s);
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
