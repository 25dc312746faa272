// SPDX-License-Identifier: Apache-2.0
// Prices per hour, by instance type or by GPU model. Model names of drivers are longer than those
// of price lists, so the longest known name that they contain as whole words is used.
#include "nodes/prices.h"

#include "base/slice.h"
#include "codec/yaml.h"

#define MAX_GPUS 1024 // of a node

static bool is_price(const json_t *v)
{
    return json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) < 1e9;
}

static struct gs_error *check_gpus(const json_t *gpus)
{
    const char *model;
    json_t *v;
    if (gpus && !json_is_object(gpus))
        return gs_error_new(GS_EINVAL, "gpus: want a mapping from models to prices per hour");
    json_object_foreach ((json_t *)gpus, model, v) {
        if (!is_price(v))
            return gs_error_new(GS_EINVAL, "gpus: %s: want the price of an hour", model);
    }
    return NULL;
}

static struct gs_error *check_instance(const char *type, const json_t *v)
{
    const char *key;
    json_t *field;
    int64_t gpus = codec_json_int(v, 0, "gpus", NULL);
    json_object_foreach ((json_t *)v, key, field) {
        if (!gs_streq(key, "gpus") && !gs_streq(key, "price"))
            return gs_error_new(GS_EINVAL, "instances: %s has a field \"%s\"; want gpus and price",
                                type, key);
    }
    if (gpus < 1 || gpus > MAX_GPUS || !is_price(json_object_get(v, "price")))
        return gs_error_new(GS_EINVAL, "instances: %s: want {gpus: COUNT, price: OF AN HOUR}",
                            type);
    return NULL;
}

struct gs_error *nodes_prices_check(const json_t *table)
{
    const char *key;
    json_t *v;
    if (!json_is_object(table))
        return gs_error_new(GS_EINVAL, "prices: want a mapping with gpus and instances");
    json_object_foreach ((json_t *)table, key, v) {
        if (!gs_streq(key, "gpus") && !gs_streq(key, "instances") && !gs_streq(key, "currency"))
            return gs_error_new(GS_EINVAL,
                                "prices have no field \"%s\"; they have gpus, instances and "
                                "currency",
                                key);
    }
    const json_t *instances = json_object_get(table, "instances");
    const json_t *currency = json_object_get(table, "currency");
    if (currency && !json_is_string(currency))
        return gs_error_new(GS_EINVAL, "currency: want a text");
    if (instances && !json_is_object(instances))
        return gs_error_new(GS_EINVAL, "instances: want a mapping from types");
    struct gs_error *err = check_gpus(json_object_get(table, "gpus"));
    json_object_foreach ((json_t *)instances, key, v) {
        if (!err)
            err = check_instance(key, v);
    }
    return err;
}

struct gs_error *nodes_prices_load(const char *path, json_t **table)
{
    struct codec_yaml_docs docs = {0};
    struct gs_error *err = codec_yaml_load_file(path, &docs);
    if (err)
        return err;
    if (docs.len != 1)
        err = gs_error_new(GS_EINVAL, "expected one YAML document with prices");
    else
        err = nodes_prices_check(docs.items[0].value);
    if (!err) {
        json_decref(*table);
        *table = json_incref(docs.items[0].value);
    }
    codec_yaml_docs_finish(&docs);
    return err ? gs_error_wrap(err, "%s", path) : NULL;
}

static struct gs_error *unknown(const char *what, const char *name, const json_t *known)
{
    GS_AUTO_BUF struct gs_buf names = {0};
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)known, key, v) {
        gs_buf_addf(&names, "%s%s", names.len ? ", " : "", key);
    }
    return gs_error_new(GS_ENOTFOUND, "no price for the %s \"%s\"; prices exist for: %s", what,
                        name, names.len ? names.data : "none");
}

struct gs_error *nodes_prices_of_gpu(const json_t *table, const char *model, double *ret)
{
    const json_t *gpus = json_object_get(table, "gpus"), *v = json_object_get(gpus, model);
    if (!v)
        return unknown("GPU", model, gpus);
    *ret = json_number_value(v);
    return NULL;
}

struct gs_error *nodes_prices_of_instance(const json_t *table, const char *type, size_t *ret_gpus,
                                          double *ret)
{
    const json_t *all = json_object_get(table, "instances"), *v = json_object_get(all, type);
    if (!v)
        return unknown("instance", type, all);
    *ret_gpus = (size_t)codec_json_int(v, 0, "gpus", NULL);
    *ret = json_number_value(json_object_get(v, "price"));
    return NULL;
}

// --- a GPU that was measured ---

static bool is_word_byte(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool contains_words(const char *text, const char *words)
{
    size_t n = strlen(words);
    for (const char *at = text; n && (at = strstr(at, words)); at++)
        if ((at == text || !is_word_byte(at[-1])) && !is_word_byte(at[n]))
            return true;
    return false;
}

static const json_t *find_model(const json_t *gpus, const char *model)
{
    const json_t *best = NULL, *exact = json_object_get(gpus, model);
    size_t longest = 0;
    const char *key;
    json_t *v;
    if (exact)
        return exact;
    json_object_foreach ((json_t *)gpus, key, v) {
        if (strlen(key) > longest && contains_words(model, key)) {
            best = v;
            longest = strlen(key);
        }
    }
    return best;
}

static bool find_instance(const json_t *table, const char *type, double *ret)
{
    const json_t *v = json_object_get(json_object_get(table, "instances"), type);
    int64_t gpus = codec_json_int(v, 0, "gpus", NULL);
    if (!*type || gpus < 1)
        return false;
    *ret = json_number_value(json_object_get(v, "price")) / (double)gpus;
    return true;
}

bool nodes_prices_find(const json_t *table, const char *machine, const char *pool,
                       const char *model, double *ret)
{
    if (!table)
        return false;
    if (find_instance(table, machine, ret) || find_instance(table, pool, ret))
        return true;
    const json_t *v = find_model(json_object_get(table, "gpus"), model);
    if (v)
        *ret = json_number_value(v);
    return v != NULL;
}
