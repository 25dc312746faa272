// SPDX-License-Identifier: Apache-2.0
// Values and the numbers and texts that mean "no value", and which part of the machine a field is
// read from.
#include "dcgmsim/dcgmsim_private.h"

#include "base/mem.h"
#include "base/slice.h"

#include <stdio.h>
#include <string.h>

#define E (&dcgmsim_engine)

// Texts are few: names, versions and identifiers. They stay until the library is unloaded.
static struct {
    char **items;
    size_t n, cap;
} kept;

const char *dcgmsim_keep_text(const char *text)
{
    for (size_t i = 0; i < kept.n; i++)
        if (gs_streq(kept.items[i], text))
            return kept.items[i];
    gs_grow(&kept.items, &kept.cap, kept.n, sizeof(*kept.items));
    kept.items[kept.n] = gs_strdup(text);
    return kept.items[kept.n++];
}

__attribute__((destructor)) static void forget_texts(void)
{
    for (size_t i = 0; i < kept.n; i++)
        free(kept.items[i]);
    free(kept.items);
}

void dcgmsim_give_int(struct dcgmsim_value *v, int64_t i)
{
    v->type = DCGM_TYPE_INT64;
    v->i = i;
}

void dcgmsim_give_double(struct dcgmsim_value *v, double d)
{
    v->type = DCGM_TYPE_DOUBLE;
    v->d = d;
}

void dcgmsim_give_text(struct dcgmsim_value *v, const char *text)
{
    v->type = DCGM_TYPE_TEXT;
    v->text = dcgmsim_keep_text(text);
}

void dcgmsim_give_blank(struct dcgmsim_value *v, char type, int which, int status)
{
    static const char *const texts[] = {DCGM_BLANK_TEXT_NONE, DCGM_BLANK_TEXT_NOT_FOUND,
                                        DCGM_BLANK_TEXT_NOT_SUPPORTED,
                                        DCGM_BLANK_TEXT_NO_PERMISSION};
    v->status = status;
    v->type = type;
    if (type == DCGM_TYPE_DOUBLE)
        v->d = DCGM_BLANK_DOUBLE + which;
    else if (type == DCGM_TYPE_TEXT)
        v->text = texts[which];
    else
        v->i = DCGM_BLANK_INT64 + which;
}

// A field that a board does not have is a blank with status 0, as DCGM stores it.
void dcgmsim_give_nvml_error(struct dcgmsim_value *v, char type, int nvml_code)
{
    switch (nvml_code) {
    case NVML_ERROR_NOT_SUPPORTED:
        dcgmsim_give_blank(v, type, 2, DCGM_OK);
        break;
    case NVML_ERROR_NO_PERMISSION:
        dcgmsim_give_blank(v, type, 3, DCGM_OK);
        break;
    case NVML_ERROR_NOT_FOUND:
        dcgmsim_give_blank(v, type, 1, DCGM_OK);
        break;
    case NVML_ERROR_GPU_IS_LOST:
        dcgmsim_give_blank(v, type, 0, DCGM_GPU_LOST);
        break;
    default:
        dcgmsim_give_blank(v, type, 0, DCGM_NVML_ERROR);
        break;
    }
}

const struct dcgm_field *dcgmsim_field(unsigned id)
{
    const struct dcgm_field *f = dcgm_field_by_id(id);
    return f && f->since <= dcgmsim_release() ? f : NULL;
}

void dcgmsim_read(const struct dcgm_entity_pair *e, const struct dcgm_field *f,
                  struct nvmlsim_activity_counters *prev, struct dcgmsim_value *ret)
{
    unsigned gpu = 0, mig = 0;
    if (dcgmsim_is_profiling(f->id)) {
        dcgmsim_read_profiling(e, f, prev, ret);
        return;
    }
    bool is_mig = dcgmsim_mig_of(e, &gpu, &mig);
    if (is_mig || e->group == DCGM_ENTITY_GPU) {
        dcgmsim_read_gpu(is_mig ? gpu : e->id, is_mig ? (int)mig : -1, f, ret);
        return;
    }
    if (f->level == DCGM_ENTITY_NONE)
        dcgmsim_read_gpu(0, -1, f, ret); // of the driver
    else
        dcgmsim_read_machine(e, f, ret);
}

// --- the field table ---

static void fill_meta(struct dcgm_field_meta *m, const struct dcgm_field *f)
{
    static const struct dcgm_field_format format = {.short_name = "", .width = 10};
    *m = (struct dcgm_field_meta){.field_id = f->id,
                                  .field_type = f->type,
                                  .size = f->type == DCGM_TYPE_TEXT ? 255 : 8,
                                  .scope = f->level == DCGM_ENTITY_NONE ? 0 : 1,
                                  .entity_level = f->level,
                                  .format = &format};
    snprintf(m->tag, sizeof(m->tag), "%s", f->tag);
}

DCGM_API struct dcgm_field_meta *DcgmFieldGetById(uint16_t id)
{
    static struct dcgm_field_meta table[2048];
    const struct dcgm_field *f = dcgmsim_field(id);
    if (!f || id >= GS_ARRAY_LEN(table))
        return NULL;
    pthread_mutex_lock(&E->lock);
    if (!table[id].field_id)
        fill_meta(&table[id], f);
    pthread_mutex_unlock(&E->lock);
    return &table[id];
}

DCGM_API int DcgmFieldsInit(void)
{
    return DCGM_OK;
}

DCGM_API int DcgmFieldsTerm(void)
{
    return DCGM_OK;
}
