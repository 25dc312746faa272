// SPDX-License-Identifier: Apache-2.0
// A case of nodes_plan() as it was read.
#pragma once

#include "codec/test_report.h"
#include "codec/yaml_reader.h"
#include "nodes/plan.h"

// What a case says about a pool beyond the pool file.
struct replay_pool_case {
    size_t size; // nodes, plus one; 0: those that are listed
    size_t leaving;
    int64_t backoff_ms; // until its end; 0: none
    bool growing;
    const char *blocked; // NULL: it may grow
};

struct replay_node_case {
    struct nodes_plan_input in;
    struct nodes_pools pools;
    struct nodes_group *groups;
    size_t *leaving;
    bool *growing;
    struct nodes_plan_node *nodes;
    json_t *budgets;      // objects that the budgets borrow
    const char **ignored; // names of pods that order nothing
    size_t n_ignored, ignored_cap;
    const json_t *expect;
};

// Reads a document whose scalars are texts. typed: the same document with types. r->err: it is
// wrong.
void replay_node_case_read(struct codec_reader *r, const json_t *doc, const json_t *typed,
                           struct replay_node_case *ret);
void replay_node_case_finish(struct replay_node_case *c);
