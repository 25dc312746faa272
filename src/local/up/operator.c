// SPDX-License-Identifier: Apache-2.0
// Connects the controller of Prometheus objects with the engine: their sections become part of
// prometheus.yml, and their selectors decide which monitors and rules the engine uses.
#include "up/up_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

static void log_precedence(const struct up_cluster *c, const json_t *objects)
{
    if (!c->values->chart.config || !c->objects == !objects)
        return;
    if (objects)
        gs_info("up", "Prometheus objects exist: their settings replace those of --values");
    else
        gs_info("up", "no Prometheus object exists: the settings of --values apply again");
}

static void on_objects_changed(void *arg)
{
    struct up_cluster *c = arg;
    const json_t *objects = operator_sections(c->operator);
    if (!codec_json_same(objects, c->objects)) {
        log_precedence(c, objects);
        json_decref(c->objects);
        c->objects = json_incref((json_t *)(uintptr_t)objects);
        up_cluster_configure(c);
    }
    engine_select_again(c->engine);
}

void up_operator_start(struct up_cluster *c)
{
    c->account_dir = gs_format("%s/engine-account", c->data_dir);
    const struct operator_config cfg = {.cluster = c->cluster,
                                        .account_dir = c->account_dir,
                                        .ca_pem = c->pki.ca.cert_pem,
                                        .on_change = on_objects_changed,
                                        .arg = c};
    c->operator= operator_new(&cfg);
    c->selection = (struct engine_config_selection){operator_choose, c->operator};
}

void up_operator_hide_kube_state(struct up_cluster *c)
{
    GS_AUTO_FREE char *who =
        up_duplicates_kube_state(engine_tsdb(c->engine), c->cluster->pods, gs_unix_ms());
    if (c->kube_state_hidden == (who != NULL))
        return;
    c->kube_state_hidden = who != NULL;
    engine_hide_kube_state(c->engine, c->kube_state_hidden);
    if (who)
        gs_info("up",
                "%s reports the state of the objects of this cluster: the engine's own kube_* "
                "series are not stored, so that nothing counts twice",
                who);
    else
        gs_info("up", "no other target reports the state of the objects of this cluster: the "
                      "engine's own kube_* series are stored again");
}
