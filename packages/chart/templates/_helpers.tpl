{{- define "cerium.name" -}}
{{- if contains "cerium" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-cerium" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- define "cerium.selector" -}}
app.kubernetes.io/name: cerium
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "cerium.labels" -}}
{{ include "cerium.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
{{- define "cerium.keys" -}}
{{ .Values.keys.existingSecret | default (printf "%s-keys" (include "cerium.name" .)) }}
{{- end }}
{{- define "cerium.ini" -}}
[limits]
key-tier = {{ .Values.keyTier }}
replicas = {{ .Values.replicas }}
{{ .Values.config | trim }}
{{- end }}
