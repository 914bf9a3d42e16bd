{{/* The name of all objects: the release, or the release with -tenaq behind it. */}}
{{- define "tenaq.name" -}}
{{- if contains "tenaq" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ .Release.Name | trunc 34 | trimSuffix "-" }}-tenaq{{ end }}
{{- end }}

{{- define "tenaq.selector" -}}
app.kubernetes.io/name: tenaq
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "tenaq.labels" -}}
{{ include "tenaq.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "tenaq.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The nodes as they reach each other. The list is the same on each. */}}
{{- define "tenaq.peers" -}}
{{- $name := include "tenaq.name" . }}
{{- range $i := until (int .Values.nodes) }}
{{- if $i }},{{ end }}{{ $name }}-{{ $i }}.{{ $name }}-nodes:9326
{{- end }}
{{- end }}

{{- define "tenaq.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "tenaq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "tenaq.key" -}}
- name: TENAQ_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef: {name: {{ .Values.keySecret }}, key: id}
- name: TENAQ_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef: {name: {{ .Values.keySecret }}, key: secret}
{{- end }}
