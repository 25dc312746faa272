{{/*
The settings that the keys of the charts prometheus-adapter and dcgm-exporter stand for, as YAML. They override those of the part.
*/}}
{{- define "gpuscale.compat.image" -}}{}{{- end -}}
{{- define "gpuscale.compat.exporter" -}}{}{{- end -}}
{{- define "gpuscale.compat.engine" -}}{}{{- end -}}
{{- define "gpuscale.compat.adapter" -}}{}{{- end -}}
{{- define "gpuscale.compat.hpa" -}}{}{{- end -}}
{{- define "gpuscale.compat.expander" -}}{}{{- end -}}
{{- define "gpuscale.compat.nodeProvider" -}}{}{{- end -}}
