// SPDX-License-Identifier: Apache-2.0
#include "cmd/exporter/simulated.h"

#include "base/log.h"
#include "base/mem.h"
#include "cmd/simlib.h"
#include "cmd/simspec.h"
#include "nvmlsim/sim.h"

#include <unistd.h>

void simulation_finish(struct simulation *s)
{
    nvmlsim_detach(s->sim);
    if (s->name)
        gs_error_free(nvmlsim_unlink(s->name));
    free(s->name);
    free(s->library);
}

// Those named by GPUSCALE_SIM, else the user's own, which `gpuscale sim` takes too. Made when they
// are not there, and then gone with us.
static struct gs_error *make_segment(const char *spec_text, struct simulation *s)
{
    struct nvmlsim_spec spec;
    struct gs_error *err = sim_spec_load(spec_text, &spec);
    if (err)
        return gs_error_wrap(err, "--simulate");
    const char *given = getenv(NVMLSIM_ENV);
    GS_AUTO_FREE char *name =
        given && *given ? gs_strdup(given) : gs_format("/gpuscale-sim-%u", getuid());
    err = nvmlsim_attach(name, &s->sim);
    bool make = err && gs_error_code(err) == GS_ENOTFOUND;
    if (make) {
        gs_error_free(err);
        err = nvmlsim_create(name, &spec, &s->sim);
    }
    if (err)
        return gs_error_wrap(err, "--simulate");
    setenv(NVMLSIM_ENV, name, 1);
    gs_info("exporter", "%s the SIMULATED GPUs %s", make ? "made" : "joined", name);
    if (make)
        s->name = GS_TAKE(name);
    return NULL;
}

struct gs_error *simulation_start(const char *spec, struct simulation *s)
{
    if (!spec)
        return NULL;
    struct gs_error *err = make_segment(spec, s);
    return err ? err : cmd_find_simulated_library(&s->library);
}
