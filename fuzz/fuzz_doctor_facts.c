// SPDX-License-Identifier: Apache-2.0
// Facts are objects and responses of other programs: the checks must accept values of any type.
#include "codec/yaml.h"
#include "doctor/doctor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    GS_CLEANUP(codec_yaml_docs_finish) struct codec_yaml_docs docs = {0};
    GS_AUTO_ERROR struct gs_error *err =
        codec_yaml_parse(gs_slice_make(data, size), "facts", &docs);
    GS_AUTO_BUF struct gs_buf text = {0};

    if (err || !docs.len)
        return 0;
    CODEC_AUTO_JSON json_t *report = doctor_examine(docs.items[0].value);
    doctor_report_text(report, &text);
    return 0;
}
