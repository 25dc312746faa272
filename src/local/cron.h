// SPDX-License-Identifier: Apache-2.0
// Schedules of CronJobs: "minute hour day-of-month month day-of-week" with lists, ranges, steps and
// names, the macros @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly, and
// "@every DURATION". Rules and error texts are those of Kubernetes.
#pragma once

#include "local/timezone.h"

struct local_cron {
    uint64_t minutes, hours, days, months, weekdays; // bit n is set: the field has the value n
    bool any_day, any_weekday;                       // the field is "*" or "?"
    int64_t every_s;                                 // of "@every"; 0: the fields count
};

struct gs_error *local_cron_parse(struct gs_slice text, struct local_cron *ret);
// The first Unix time in seconds after `after_s`; 0 if no time matches within five years. Local
// times that a change to daylight saving time skips have no run. zone NULL: the zone of the
// process.
int64_t local_cron_next(const struct local_cron *c, const struct local_timezone *zone,
                        int64_t after_s);
// The last time up to now_s and after `after_s`; 0 if no time matches. *ret_missed: how many such
// times there are, estimated if there are many.
int64_t local_cron_latest(const struct local_cron *c, const struct local_timezone *zone,
                          int64_t after_s, int64_t now_s, int64_t *ret_missed);
