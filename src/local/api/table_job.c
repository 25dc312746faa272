// SPDX-License-Identifier: Apache-2.0
// Jobs and CronJobs.
#include "base/clock.h"
#include "base/mem.h"
#include "kube/object.h"
#include "local/api/table.h"

#include <inttypes.h>

static const char *job_status(const json_t *job)
{
    static const char *const shown[] = {"Complete", "Failed"}, *const running[] = {
                                                                   "Suspended", "FailureTarget",
                                                                   "SuccessCriteriaMet"};

    for (size_t i = 0; i < GS_ARRAY_LEN(shown); i++)
        if (kube_condition_true(job, shown[i]))
            return shown[i];
    if (kube_is_deleting(job))
        return "Terminating";
    for (size_t i = 0; i < GS_ARRAY_LEN(running); i++)
        if (kube_condition_true(job, running[i]))
            return running[i];
    return "Running";
}

static json_t *completions_cell(const json_t *job)
{
    int64_t succeeded = codec_json_int(job, 0, "status", "succeeded", NULL);
    int64_t completions = codec_json_int(job, -1, "spec", "completions", NULL);
    int64_t parallelism = codec_json_int(job, 1, "spec", "parallelism", NULL);

    if (completions >= 0)
        return codec_json_strf("%" PRId64 "/%" PRId64, succeeded, completions);
    if (parallelism > 1)
        return codec_json_strf("%" PRId64 "/1 of %" PRId64, succeeded, parallelism);
    return codec_json_strf("%" PRId64 "/1", succeeded);
}

static json_t *duration_cell(const json_t *job, int64_t now_ms)
{
    const char *start = codec_json_str(job, "status", "startTime", NULL);
    const char *end = codec_json_str(job, "status", "completionTime", NULL);
    char text[LOCAL_API_AGE_SIZE];
    int64_t from, to = now_ms;

    if (!start)
        return json_string("");
    GS_AUTO_ERROR struct gs_error *err = gs_parse_rfc3339(gs_slice_of(start), &from);
    if (!err && end)
        err = gs_parse_rfc3339(gs_slice_of(end), &to);
    return json_string(err ? "<unknown>" : local_api_format_duration(to - from, text));
}

static void job_cells(const json_t *job, json_t *cells, int64_t now_ms)
{
    local_api_cell_name(cells, job);
    local_api_cell_str(cells, job_status(job));
    json_array_append_new(cells, completions_cell(job));
    json_array_append_new(cells, duration_cell(job, now_ms));
    local_api_cell_age(cells, job, now_ms);
    local_api_cell_containers(cells,
                              codec_json_get(job, "spec", "template", "spec", "containers", NULL));
    local_api_cell_selector(cells, job);
}

const struct local_api_table local_api_table_jobs = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Status", "string", 0, "State of the job."},
        {"Completions", "string", 0, "Succeeded pods, and pods that must succeed."},
        {"Duration", "string", 0, "Time from the start to the completion."},
        LOCAL_API_COLUMN_AGE,
        {"Containers", "string", 1, "Names of each container in the template."},
        {"Images", "string", 1, "Images referenced by each container in the template."},
        {"Selector", "string", 1, "Label selector for pods."},
        {0}},
    job_cells};

static void cronjob_cells(const json_t *cronjob, json_t *cells, int64_t now_ms)
{
    const json_t *job = codec_json_get(cronjob, "spec", "jobTemplate", NULL);
    const char *last = codec_json_str(cronjob, "status", "lastScheduleTime", NULL);
    bool suspended = codec_json_bool(cronjob, false, "spec", "suspend", NULL);
    char age[LOCAL_API_AGE_SIZE];

    local_api_cell_name(cells, cronjob);
    local_api_cell_str(cells, codec_json_str(cronjob, "spec", "schedule", NULL));
    local_api_cell_or(cells, codec_json_str(cronjob, "spec", "timeZone", NULL), "<none>");
    local_api_cell_str(cells, suspended ? "True" : "False");
    local_api_cell_int(cells,
                       (int64_t)json_array_size(codec_json_get(cronjob, "status", "active", NULL)));
    local_api_cell_str(cells, last ? local_api_format_age(last, now_ms, age) : "<none>");
    local_api_cell_age(cells, cronjob, now_ms);
    local_api_cell_containers(cells,
                              codec_json_get(job, "spec", "template", "spec", "containers", NULL));
    local_api_cell_selector(cells, job);
}

const struct local_api_table local_api_table_cronjobs = {
    (const struct local_api_column[]){
        LOCAL_API_COLUMN_NAME,
        {"Schedule", "string", 0, "Schedule in the format of cron."},
        {"Timezone", "string", 0, "Time zone of the schedule."},
        {"Suspend", "boolean", 0, "Whether no further jobs are created."},
        {"Active", "integer", 0, "Number of running jobs."},
        {"Last Schedule", "string", 0, "Time since the last job was created."},
        LOCAL_API_COLUMN_AGE,
        {"Containers", "string", 1, "Names of each container in the template."},
        {"Images", "string", 1, "Images referenced by each container in the template."},
        {"Selector", "string", 1, "Label selector for pods."},
        {0}},
    cronjob_cells};
