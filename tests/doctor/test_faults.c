// SPDX-License-Identifier: Apache-2.0
// The fault matrix: faults.yaml lists faults as changes of healthy.yaml, each with the check that
// must report it first.
#include "unit.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/slice.h"
#include "codec/yaml.h"
#include "doctor/doctor.h"
#include "kube/patch.h"

#include <stdlib.h>

static json_t *load(const char *name)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    GS_AUTO_FREE char *path = gs_format("%s/tests/doctor/%s", getenv("GPUSCALE_SOURCE_ROOT"), name);

    assert_ok(codec_yaml_load_file(path, &docs));
    assert_int_equal(docs.len, 1);
    return json_incref(docs.items[0].value);
}

static const json_t *finding(const json_t *report, const char *check)
{
    size_t i;
    const json_t *f;

    json_array_foreach (json_object_get(report, "findings"), i, f)
        if (!check || gs_streq(codec_json_str(f, "check", NULL), check))
            return f;
    return NULL;
}

// The facts that a fault changes.
static json_t *load_base(const json_t *fault)
{
    const char *name = codec_json_str(fault, "of", NULL);
    return load(name ? name : "healthy.yaml");
}

static void check_healthy(const char *name)
{
    CODEC_AUTO_JSON json_t *healthy = load(name);
    CODEC_AUTO_JSON json_t *report = doctor_examine(healthy);
    GS_AUTO_BUF struct gs_buf text = {0};

    doctor_report_text(report, &text);
    if (finding(report, NULL))
        fail_msg("%s", text.data);
    assert_int_equal(doctor_result_of(report), DOCTOR_HEALTHY);
    assert_non_null(strstr(text.data, "No findings."));
}

static void test_healthy_facts_have_no_findings(void **state)
{
    (void)state;
    check_healthy("healthy.yaml");
    check_healthy("healthy-node.yaml");
}

// The check of the cause of each of these findings.
static bool names_causes(const json_t *report, const json_t *want)
{
    const char *effect;
    json_t *cause;

    json_object_foreach ((json_t *)want, effect, cause)
        if (!gs_streq(codec_json_str(finding(report, effect), "because", "check", NULL),
                      json_string_value(cause)))
            return false;
    return true;
}

// Messages of Kubernetes end in a full stop or not.
static bool ends_once(const char *sentence)
{
    size_t len = strlen(sentence);
    return len > 2 && (sentence[len - 1] != '.' || sentence[len - 2] != '.');
}

static bool check_fault(const json_t *fault)
{
    const char *name = codec_json_str(fault, "fault", NULL);
    const char *first = codec_json_str(fault, "first", NULL);
    const char *also = codec_json_str(fault, "also", NULL);
    const char *names = codec_json_str(fault, "names", NULL);
    CODEC_AUTO_JSON json_t *healthy = load_base(fault), *facts = NULL;
    struct gs_error *err = kube_patch_json(healthy, json_object_get(fault, "patch"), &facts);

    if (err) {
        print_error("%s: %s\n", name, gs_error_message(err));
        gs_error_free(err);
        return false;
    }
    CODEC_AUTO_JSON json_t *report = doctor_examine(facts);
    const json_t *f = finding(report, NULL);
    GS_AUTO_FREE char *text = f ? codec_json_text(f) : gs_strdup("nothing");
    // Quotes in the text are escaped.
    GS_AUTO_FREE char *quoted = codec_json_text(json_object_get(fault, "names"));
    GS_AUTO_FREE char *inner = gs_strndup(quoted + 1, strlen(quoted) - 2);
    if (f && gs_streq(codec_json_str(f, "check", NULL), first) && names && strstr(text, inner) &&
        (!also || finding(report, also)) && ends_once(codec_json_str(f, "what", NULL)) &&
        names_causes(report, json_object_get(fault, "because")) &&
        doctor_result_of(report) == DOCTOR_FINDINGS)
        return true;
    print_error("%s: want %s with \"%s\", found %s\n", name, first, names, text);
    return false;
}

static void test_each_fault_is_named_first(void **state)
{
    CODEC_AUTO_JSON json_t *faults = load("faults.yaml");
    size_t i, bad = 0;
    const json_t *fault;

    (void)state;
    json_array_foreach (faults, i, fault)
        bad += !check_fault(fault);
    print_message("%zu of %zu faults are named first\n", json_array_size(faults) - bad,
                  json_array_size(faults));
    assert_int_equal(bad, 0);
    assert_true(json_array_size(faults) >= 60);
}

// Facts that look like a fault, and are none.
static void test_harmless_facts_have_no_findings(void **state)
{
    CODEC_AUTO_JSON json_t *all = load("harmless.yaml");
    size_t i;
    const json_t *h;

    (void)state;
    json_array_foreach (all, i, h) {
        CODEC_AUTO_JSON json_t *healthy = load_base(h), *facts = NULL;
        assert_ok(kube_patch_json(healthy, json_object_get(h, "patch"), &facts));
        CODEC_AUTO_JSON json_t *report = doctor_examine(facts);
        const json_t *f = finding(report, NULL);
        if (f)
            fail_msg("%s: %s", codec_json_str(h, "harmless", NULL),
                     codec_json_str(f, "check", NULL));
    }
}

static void test_each_finding_says_how_to_fix_it(void **state)
{
    static const char *const members[] = {"check", "link",     "level", "subject",
                                          "what",  "evidence", "why",   "fix"};
    CODEC_AUTO_JSON json_t *faults = load("faults.yaml");
    size_t i, k;
    const json_t *fault, *f;

    (void)state;
    json_array_foreach (faults, i, fault) {
        CODEC_AUTO_JSON json_t *healthy = load_base(fault), *facts = NULL;
        assert_ok(kube_patch_json(healthy, json_object_get(fault, "patch"), &facts));
        CODEC_AUTO_JSON json_t *report = doctor_examine(facts);
        json_array_foreach (json_object_get(report, "findings"), k, f)
            for (size_t m = 0; m < GS_ARRAY_LEN(members); m++)
                if (!codec_json_str(f, members[m], NULL) || !*codec_json_str(f, members[m], NULL))
                    fail_msg("%s: %s is empty", codec_json_str(f, "check", NULL), members[m]);
    }
}

static void test_each_check_has_a_fault(void **state)
{
    CODEC_AUTO_JSON json_t *faults = load("faults.yaml");
    size_t i;
    const json_t *fault;

    (void)state;
    for (size_t c = 0; doctor_check_id(c); c++) {
        bool found = false;
        json_array_foreach (faults, i, fault)
            found = found || gs_streq(codec_json_str(fault, "first", NULL), doctor_check_id(c)) ||
                    gs_streq(codec_json_str(fault, "also", NULL), doctor_check_id(c));
        if (!found)
            fail_msg("faults.yaml has no fault of the check %s", doctor_check_id(c));
    }
}

// Replaces each step-th value below `at` in turn, and examines `facts`, which contains it.
static void replace_each(json_t *facts, json_t *at, size_t step, size_t *count)
{
    static const char *const replacements[] = {"null", "7",  "-1e300", "\"text\"",
                                               "[]",   "{}", "[{}]"};
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe (at, next, key, value) {
        GS_AUTO_FREE char *name = gs_strdup(key);
        CODEC_AUTO_JSON json_t *old = json_incref(value);
        replace_each(facts, old, step, count);
        for (size_t k = 0; *count % step == 0 && k < GS_ARRAY_LEN(replacements); k++) {
            json_object_set_new(at, name, json_loads(replacements[k], JSON_DECODE_ANY, NULL));
            CODEC_AUTO_JSON json_t *report = doctor_examine(facts);
            GS_AUTO_BUF struct gs_buf text = {0};
            doctor_report_text(report, &text);
        }
        json_object_set(at, name, old);
        ++*count;
    }
    for (size_t i = 0; json_is_array(at) && i < json_array_size(at); i++)
        replace_each(facts, json_array_get(at, i), step, count);
}

static void test_values_of_any_type_are_accepted(void **state)
{
    CODEC_AUTO_JSON json_t *healthy = load("healthy.yaml"), *machine = load("healthy-node.yaml");
    CODEC_AUTO_JSON json_t *faults = load("faults.yaml");
    size_t i, count = 0;
    const json_t *fault;

    (void)state;
    replace_each(healthy, healthy, 1, &count);
    replace_each(machine, machine, 1, &count);
    assert_true(count > 300);
    json_array_foreach (faults, i, fault) {
        CODEC_AUTO_JSON json_t *base = load_base(fault), *facts = NULL;
        assert_ok(kube_patch_json(base, json_object_get(fault, "patch"), &facts));
        count = i; // other values for each fault
        replace_each(facts, facts, 199, &count);
    }
}

static void test_page_lists_the_checks(void **state)
{
    GS_AUTO_FREE char *path = gs_format("%s/docs/doctor.md", getenv("GPUSCALE_SOURCE_ROOT"));
    GS_AUTO_BUF struct gs_buf page = {0}, reference = {0};

    (void)state;
    assert_ok(gs_file_read(path, 1 << 20, &page));
    doctor_reference(&reference);
    if (!strstr(page.data, reference.data))
        fail_msg("docs/doctor.md differs from the checks: run tools/doctor-page");
}

static void test_unknown_facts_are_not_findings(void **state)
{
    CODEC_AUTO_JSON json_t *facts = json_object();
    CODEC_AUTO_JSON json_t *nothing = doctor_examine(facts);
    assert_int_equal(doctor_result_of(nothing), DOCTOR_UNKNOWN);
    assert_null(finding(nothing, NULL));

    // Without the right to read a list, the checks that need it report nothing.
    CODEC_AUTO_JSON json_t *healthy = load("healthy.yaml");
    const char *name;
    json_t *list;
    (void)state;
    json_object_foreach (json_object_get(healthy, "kubernetes"), name, list) {
        CODEC_AUTO_JSON json_t *less = json_deep_copy(healthy);
        if (!json_is_object(list))
            continue;
        codec_json_set(less, json_pack("{s:s}", "unknown", "forbidden"), "kubernetes", name, NULL);
        CODEC_AUTO_JSON json_t *report = doctor_examine(less);
        if (finding(report, NULL))
            fail_msg("without %s: %s", name, codec_json_text(finding(report, NULL)));
        assert_int_equal(json_array_size(json_object_get(report, "notExamined")), 1);
    }
    codec_json_set(healthy, json_pack("{s:s}", "unknown", "too large"), "prometheus", "targets",
                   NULL);
    CODEC_AUTO_JSON json_t *report = doctor_examine(healthy);
    assert_null(finding(report, NULL));
    assert_string_equal(
        codec_json_str(json_array_get(json_object_get(report, "notExamined"), 0), "what", NULL),
        "targets of Prometheus");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_healthy_facts_have_no_findings),
        cmocka_unit_test(test_each_fault_is_named_first),
        cmocka_unit_test(test_harmless_facts_have_no_findings),
        cmocka_unit_test(test_each_finding_says_how_to_fix_it),
        cmocka_unit_test(test_each_check_has_a_fault),
        cmocka_unit_test(test_values_of_any_type_are_accepted),
        cmocka_unit_test(test_page_lists_the_checks),
        cmocka_unit_test(test_unknown_facts_are_not_findings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
