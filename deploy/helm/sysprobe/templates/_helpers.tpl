{{/* Names, labels, and what follows from where names of pods come from. */}}

{{- define "sysprobe.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sysprobe.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "sysprobe.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "sysprobe.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{/* What is cluster-wide may not collide with another namespace's. */}}
{{- define "sysprobe.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "sysprobe.fullname" .) | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "sysprobe.selector" -}}
app.kubernetes.io/name: {{ include "sysprobe.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sysprobe.labels" -}}
{{ include "sysprobe.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "sysprobe.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "sysprobe.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "sysprobe.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* Empty, unless somebody has to be asked with the service account's token. */}}
{{- define "sysprobe.usesToken" -}}
{{- if has .Values.podNames.source (list "kubernetes" "kubelet") }}yes{{ end }}
{{- end }}

{{- define "sysprobe.monitorRelabelings" -}}
# The name of the node instead of an address: an agent that was restarted is the same instance.
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: instance
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: node
{{- end }}
