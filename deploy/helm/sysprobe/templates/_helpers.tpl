{{/* Names, labels, and settings that depend on the source of pod names. */}}

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

{{/* Cluster-wide objects must not collide with those of a release in another namespace. */}}
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
{{- $_ := required "image.repository: there is no public image; set the repository of your own" .repository }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ default $.Chart.AppVersion .tag }}{{ end }}
{{- end }}
{{- end }}

{{/* The field exists since Kubernetes 1.30. */}}
{{- define "sysprobe.recursiveReadOnly" -}}
{{- if and .Values.recursiveReadOnly (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) }}
recursiveReadOnly: {{ .Values.recursiveReadOnly }}
{{- end }}
{{- end }}

{{/* Rejects values that are valid one by one but do not work together. */}}
{{- define "sysprobe.refuse" -}}
{{- $asks := regexMatch "(?m)^\\s*sources\\s*=\\s*\\[[^\\]]*[\"']kubelet[\"']" .Values.config }}
{{- if and (eq .Values.podNames.source "kubelet") (not $asks) }}
{{- fail "podNames.source=kubelet: the agent asks the kubelet only if `config` says so: [pods] sources = [\"kubelet\"]" }}
{{- end }}
{{- if and $asks (ne .Values.podNames.source "kubelet") }}
{{- fail "`config` names the source kubelet, for which the agent has rights only with podNames.source=kubelet" }}
{{- end }}
{{- if and .Values.image.tag .Values.image.digest }}
{{- fail "set only one of image.tag and image.digest" }}
{{- end }}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
{{- fail "podMonitor and serviceMonitor: with both, everything is scraped twice" }}
{{- end }}
{{- if and (include "sysprobe.usesToken" .) .Values.rbac.create (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) }}
{{- fail "serviceAccount.create=false: rbac.create would give the rights to the namespace's default account; name one in serviceAccount.name" }}
{{- end }}
{{- end }}

{{/* Empty unless the source of pod names needs the service account's token. */}}
{{- define "sysprobe.usesToken" -}}
{{- if has .Values.podNames.source (list "kubernetes" "kubelet") }}yes{{ end }}
{{- end }}

{{- define "sysprobe.monitorRelabelings" -}}
# The node's name instead of an address, so that a restarted agent keeps its instance label.
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: instance
- sourceLabels: [__meta_kubernetes_pod_node_name]
  targetLabel: node
{{- end }}
