// SPDX-License-Identifier: Apache-2.0
// The fields of DCGM 3.3.9 to 4.7: ids, types, levels and the names of each release. dcgm-exporter
// names its metrics like the fields, so that this table also says which metrics of its release 4.9
// are those of 4.8, and by which factor they differ. All functions may be called on each thread;
// all pointers are to constants.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DCGM_FIELD_PREFIX "DCGM_FI_"

// A release is a number: 40601 is 4.6.1.
enum {
    DCGM_RELEASE_OLDEST = 30309, // fields of this release may be older
    DCGM_RELEASE_RENAMED = 40600,
    DCGM_RELEASE_BASE_UNITS = 40700, // the release that dcgm-exporter 4.9 is made for
};

struct dcgm_field {
    uint16_t id;
    uint32_t since;  // the release that has the id first
    char type;       // 'i' int64, 'd' double, 's' text, 'b' bytes
    uint8_t level;   // what it describes: enum dcgm_entity_group (abi.h). Those of GPU_I and GPU_CI
                     // describe whole GPUs, too
    const char *tag; // DCGM's short name, without a prefix
    const char *name; // with DCGM_FI_; what dcgm-exporter up to 4.8 calls it, if it is that old
    uint32_t renamed_since;
    const char *renamed; // the newer name of the same id and unit; NULL: none
};

// The fields in order of their ids. NULL: i is too large.
const struct dcgm_field *dcgm_field_at(size_t i);
const struct dcgm_field *dcgm_field_by_id(unsigned id); // NULL: not known
// The field of a name of any release, with the prefix DCGM_FI_. NULL: not known.
// DCGM_FI_DEV_GPU_UTIL_RATIO is 1613 (0 to 1); DCGM 4.6 also gave this name to 203 (percent).
const struct dcgm_field *dcgm_field_by_name(const char *name);

// Two fields that give the same measurement: new value = old value * factor. Up to rounding: old
// values are whole MiB, percents, …
struct dcgm_unit_change {
    uint16_t old_id, new_id;
    double factor;
    const char *old_unit, *new_unit;
};

const struct dcgm_unit_change *dcgm_unit_change_at(size_t i); // NULL: i is too large
// The pair that a field is the old or the new one of. NULL: none.
const struct dcgm_unit_change *dcgm_unit_change_of(unsigned id);

// A metric that has another name in dcgm-exporter 4.9 than in 4.8.
struct dcgm_rename {
    const char *old_name;    // of 4.8
    const char *middle_name; // of DCGM 4.6, in the old unit; NULL: none, or it is new_name
    const char *new_name;    // of 4.9
    const char *old_unit;    // NULL: the unit is the same
    const char *new_unit;    // NULL: the unit is the same
    double factor;           // new value = old value * factor; 1: the unit is the same
    unsigned old_id, new_id; // the same if the unit is the same
    uint32_t since;          // the release that has new_name first
};

// By the old, the middle or the new name. False: no field has this name, or it has only one name.
// Also for labels: DCGM_FI_DRIVER_VERSION is the name of a field.
bool dcgm_rename_of(const char *name, struct dcgm_rename *ret);
